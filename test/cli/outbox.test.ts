import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { hostEnvironment } from '../e2e/support/run-app.ts';
import { type CommandEnd, runSvc } from '../support/run-svc.ts';
import { type OutboxFolder, outboxFolder, outboxRow } from './outbox-folder.ts';

describe('svc outbox', function () {
  this.timeout(60_000);
  let folder: OutboxFolder;
  const svc = (...args: string[]): Promise<CommandEnd> => runSvc(['outbox', ...args], { cwd: folder.path });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it, and assert on what they find.
  const jsonOf = async (...args: string[]): Promise<any> => {
    const { code, stdout, stderr } = await svc(...args, '--json');
    return { code, stderr, ...JSON.parse(stdout) };
  };

  beforeEach(async () => {
    folder = await outboxFolder();
    await folder.put('PUBLISHED', { eventId: '1' }, { eventId: '2', topic: 'others' });
    await folder.put('FAILED', { eventId: '3' }, { eventId: '4', eventType: 'PAID', aggregateId: 'b' });
    await folder.put('PENDING', { eventId: '5' });
  });
  afterEach(() => folder.remove());

  it('--help shows its commands, and of one of them its own options alone', async () => {
    const all = await svc('--help');
    assert.match(
      all.stdout,
      /^Usage: npx --no svc outbox \[options\] \[command\]\n[\s\S]*\nCommands:\n {2}stats /,
    );
    const one = await svc('list', '-h');
    assert.match(one.stdout, /^Usage: npx --no svc outbox list \[options\]\n\nlist events/);
    assert.match(one.stdout, /\n {2}--aggregate-id <id> /);
    assert.doesNotMatch(one.stdout, /--dialect|--dry-run|--online/);
    assert.deepEqual([all.code, one.code], [0, 0]);
  });

  it('stats are those of the specification', async () => {
    const { code, stdout } = await svc('stats', '--json');
    const { avgProcessingTimeMs, oldestPendingMs, ...counts } = JSON.parse(stdout);
    assert.equal(code, 0);
    assert.deepEqual(counts, { total: 5, pending: 1, published: 2, failed: 2 });
    assert.ok(avgProcessingTimeMs >= 0 && oldestPendingMs >= 0);
    const text = await svc('stats');
    assert.match(
      text.stdout,
      /^total {6}5\npending {4}1, the oldest for \d+ s\npublished {2}2, after \d+ ms on average\nfailed {5}2\n$/,
    );
  });

  it('list shows what rows are, and nothing of their content', async () => {
    const { code, stdout, stderr } = await svc('list');
    const [head, ...lines] = stdout.trim().split('\n');
    assert.deepEqual(
      [code, head],
      [0, 'OCCURRED                  EVENT  STATUS     TRIES  TYPE     AGGREGATE  TOPIC   REASON'],
    );
    assert.equal(lines.length, 5);
    assert.equal(
      lines[3],
      '2026-03-04T10:00:00.000Z  4      FAILED     4      PAID     Order b    events  MESSAGE_TOO_LARGE',
    );
    const { events } = JSON.parse((await svc('list', '--json')).stdout);
    assert.deepEqual(
      events.map(({ eventId }: { eventId: string }) => eventId),
      lines.map((line) => line.split(/ {2,}/)[1]),
    );
    assert.deepEqual(Object.keys(events[0]), [
      ...['occurredAt', 'eventId', 'status', 'retryCount', 'eventType', 'aggregateType', 'aggregateId'],
      ...['topic', 'lastError', 'nextRetryInMs'],
    ]);
    assert.ok(!stdout.includes('4111'));
    assert.match(stderr, /\n5 events\n$/);
  });

  for (const [filters, ids] of [
    [['--type', 'PAID'], ['4']],
    [['--topic', 'others'], ['2']],
    [['--aggregate-id', 'b'], ['4']],
    [['--aggregate-type', 'Cart'], []],
    [
      ['--status', 'failed', '--status', 'PENDING'],
      ['3', '4', '5'],
    ],
    [
      ['--since', '1h'],
      ['1', '2', '3', '4', '5'],
    ],
    [['--before', '1h'], []],
  ] as const)
    it(`list ${filters.join(' ')}`, async () => {
      const { events, more } = await jsonOf('list', ...filters);
      assert.deepEqual([events.map(({ eventId }: { eventId: string }) => eventId), more], [ids, false]);
    });

  it('list --limit says that there is more', async () => {
    const { code, matched, more } = await jsonOf('list', '--limit', '4');
    assert.deepEqual([code, matched, more], [0, 4, true]);
    assert.match(
      (await svc('list', '--limit', '4')).stderr,
      /4 events, and there are more: use a larger --limit\n$/,
    );
    assert.equal((await jsonOf('list', '--limit', '5')).more, false);
  });

  it('replay sends again whatever the status, to the same topics, and changes no row', async () => {
    const before = await folder.statuses();
    const dry = await jsonOf('replay', '--since', '1h', '--dry-run');
    assert.deepEqual([dry.code, dry.matched, folder.topic('events')], [0, 5, []]);
    const { code, total, success, failed, failedEventIds, limit, stopped } = await jsonOf(
      ...['replay', '--since', '1h'],
    );
    assert.deepEqual(
      { code, total, success, failed, failedEventIds, limit, stopped },
      { code: 0, total: 5, success: 5, failed: 0, failedEventIds: [], limit: 1000, stopped: null },
    );
    assert.deepEqual(
      folder.topic('events').map(({ headers }) => [headers.eventId, headers['svc-replay']]),
      ['1', '3', '4', '5'].map((id) => [id, 'true']),
    );
    assert.equal(folder.topic('others').length, 1);
    assert.deepEqual(await folder.statuses(), before);
    const some = await svc('replay', '--since', '1h', '--status', 'PUBLISHED', '--limit', '1');
    assert.match(some.stderr, /\n1 of 1 event since \S+ sent again to their topics\n$/);
  });

  it('retry-failed makes FAILED events PENDING, and takes no others', async () => {
    const dry = await jsonOf('retry-failed', '--dry-run');
    assert.deepEqual([dry.code, dry.matched], [0, 2]);
    const { code, retried, dryRun } = await jsonOf('retry-failed', '--type', 'PAID');
    assert.deepEqual([code, retried, dryRun], [0, 1, false]);
    assert.deepEqual(await folder.statuses(), {
      ...{ 1: 'PUBLISHED', 2: 'PUBLISHED', 3: 'FAILED', 4: 'PENDING', 5: 'PENDING' },
    });
    const [row] = await folder.store.read({ aggregateId: 'b' }, 0, 1);
    assert.deepEqual([row?.retryCount, row?.lastError], [0, null]);
    assert.match((await svc('retry-failed')).stderr, /\n1 event will be sent again\n$/);
    assert.equal((await svc('retry-failed', '--status', 'PENDING')).code, 2);
  });

  it('discard deletes FAILED events, others where a status or --all names them', async () => {
    const dry = await jsonOf('discard', '--topic', 'events', '--dry-run');
    assert.deepEqual([dry.code, dry.matched], [0, 2]);
    assert.equal((await jsonOf('discard', '--topic', 'events', '--limit', '1')).discarded, 1);
    assert.deepEqual(Object.keys(await folder.statuses()), ['1', '2', '4', '5']);
    assert.equal((await jsonOf('discard', '--status', 'PENDING')).discarded, 1);
    assert.match((await svc('discard', '--all')).stderr, /\n3 events deleted\n$/);
    assert.deepEqual(await folder.statuses(), {});
  });

  it('many rows go in pieces', async () => {
    await folder.put(
      'FAILED',
      ...Array.from({ length: 450 }, (_, at) => ({ eventId: `x${at}`, topic: 'many' })),
    );
    assert.equal((await jsonOf('discard', '--topic', 'many')).discarded, 450);
  });

  it('Ctrl-C ends after the batch under way, says what was done, and the rest is still there', async () => {
    const count = 20_000;
    await folder.store.insert(
      Array.from({ length: count }, (_, at) => outboxRow({ eventId: `x${at}`, topic: 'many' })),
    );
    const main = resolve(import.meta.dirname, '../../src/cli/main.ts');
    const child = spawn(
      process.execPath,
      [main, 'outbox', 'discard', '--topic', 'many', '--status', 'PENDING', '--json'],
      { cwd: folder.path, env: hostEnvironment(), stdio: ['ignore', 'pipe', 'pipe'] },
    );
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (text) => {
      stdout += text;
    });
    child.stderr.on('data', (text) => {
      stderr += text;
    });
    const ended = once(child, 'close');
    while ((await folder.store.countPending()) === count + 1)
      await new Promise((done) => setTimeout(done, 5));
    child.kill('SIGINT');
    assert.deepEqual(await ended, [1, null]);
    const { discarded, stopped } = JSON.parse(stdout);
    assert.equal(stopped, 'stopped on request');
    assert.match(stderr, /svc: stopping after the current batch\n/);
    assert.ok(discarded > 0 && discarded < count, `${discarded}`);
    assert.equal(await folder.store.countPending(), count + 1 - discarded);
  });

  for (const [args, says] of [
    [['discard'], 'svc outbox discard needs a filter, or --all for every event'],
    [['discard', '--limit', '5'], 'svc outbox discard needs a filter, or --all for every event'],
    [['discard', '--all', '--type', 'X'], '--all means every event: remove the filter'],
    [['replay'], 'svc outbox replay needs --since <time>, the start of the replay'],
    [
      ['replay', '--since', 'yesterday'],
      '--since takes a time such as 2026-03-04T10:00:00Z, or how long ago, such as 90m or 2d',
    ],
    [['list', '--since', '1h', '--before', '2h'], '--since is not before --before'],
    [['list', '--status', 'SENT'], '--status takes PENDING, PUBLISHED, FAILED'],
    [['list', '--limit', '0'], '--limit takes a number of events, an integer from 1'],
    [['stats', '--type', 'X'], "unknown option '--type'"],
    [['drop'], "unknown command 'drop'; see npx --no svc outbox --help"],
    [['toString'], "unknown command 'toString'; see npx --no svc outbox --help"],
    [['ddl', '--dialect', 'oracle'], '--dialect takes postgres, mysql or sqlite'],
    [['ddl', '--role', 'app=x'], 'SQLite has no roles: remove --role'],
    [['ddl', '--from', '0'], '--from takes the version of the tables, which svc outbox check prints'],
    [['ddl', '--partitioned'], '--partitioned is for PostgreSQL: SQLite has no partitions; remove it'],
    [
      ['ddl', '--partitioned', '--dialect', 'mysql'],
      '--partitioned is for PostgreSQL: svc makes no partitions in MySQL and MariaDB; remove it',
    ],
    [['ddl', '--role', 'admin=x'], '--role takes app=<user>, relay=<user>, or both with a comma'],
    [['ddl', '--table', 'a b'], 'svc.outbox.table must be at most 63 letters, digits and _'],
  ] as const)
    it(`${args.join(' ')} is a wrong use`, async () => {
      const { code, stderr, stdout } = await svc(...args);
      assert.equal(code, 2, stderr);
      assert.ok(stderr.startsWith(`svc: ${says}`), stderr);
      assert.equal(stdout, '');
      assert.equal(Object.keys(await folder.statuses()).length, 5);
    });

  it('without an outbox, or with a wrong one, is a wrong use that says what to set', async () => {
    const write = (outbox: object): void =>
      writeFileSync(join(folder.path, 'svc.config.json'), JSON.stringify({ svc: { outbox } }));
    write({});
    assert.match(
      (await svc('stats')).stderr,
      /^svc: no outbox: set svc\.outbox\.enabled: true, and svc\.outbox\.datasource\.url/,
    );
    write({ enabled: true, datasource: { url: 'oracle://db' } });
    const { code, stderr } = await svc('list');
    assert.equal(code, 2);
    assert.match(stderr, /^svc: svc\.outbox\.datasource\.url:? /);
  });

  it('replay without a broker that somebody named is a wrong use', async () => {
    writeFileSync(
      join(folder.path, 'svc.config.json'),
      JSON.stringify({ svc: { outbox: { enabled: true, datasource: { url: 'sqlite:./outbox.db' } } } }),
    );
    const { code, stderr } = await svc('replay', '--since', '1h');
    assert.equal(code, 2);
    assert.match(stderr, /svc: no broker: give --broker/);
  });

  it('a table that is not there is made by migrate, which check says', async () => {
    const env = { SVC_OUTBOX_TABLE: 'app_outbox' };
    const run = (...args: string[]): Promise<CommandEnd> =>
      runSvc(['outbox', ...args], { cwd: folder.path, env });
    const missing = await run('check', '--json');
    assert.equal(missing.code, 1);
    const { problem, ...rest } = JSON.parse(missing.stdout);
    assert.deepEqual(rest, {
      ...{ ok: false, dialect: 'sqlite', table: 'app_outbox', code: 'SVC_OUTBOX_TABLE_MISSING' },
    });
    assert.match(problem, /has no table app_outbox of the outbox/);
    const stats = await run('stats');
    assert.equal(stats.code, 1);
    assert.match(stats.stderr, /svc: SQLite in .* has no table app_outbox/);
    assert.equal(JSON.parse((await run('migrate', '--json')).stdout).changed, true);
    assert.match((await run('migrate')).stderr, /nothing to do\n$/);
    const { code, stdout } = await run('check', '--json');
    assert.deepEqual(
      [code, JSON.parse(stdout)],
      [0, { ok: true, dialect: 'sqlite', table: 'app_outbox', pending: 0 }],
    );
  });

  it('check and migrate tell of a table that takes rows which no relay finds, and check of such rows', async () => {
    const database = new DatabaseSync(join(folder.path, 'outbox.db'));
    database.exec('DROP TRIGGER svc_outbox_events_valid_insert; DROP TRIGGER svc_outbox_events_valid_update');
    const takes = /^svc: warn: svc_outbox_events accepts rows .* run: CREATE TRIGGER /m;
    const open = await svc('check');
    assert.equal(open.code, 0, open.stderr);
    assert.match(open.stderr, takes);
    assert.match((await svc('migrate')).stderr, takes);
    database.exec("UPDATE svc_outbox_events SET status = 'SENT' WHERE id = 1");
    database.exec('UPDATE svc_outbox_events SET shard = 999 WHERE id = 2');
    database.close();
    const found = await svc('check');
    assert.equal(found.code, 1);
    assert.match(
      found.stdout,
      /^error: the table svc_outbox_events in SQLite .* has 2 rows that no relay finds/,
    );
    const { code, problem } = JSON.parse((await svc('check', '--json')).stdout);
    assert.deepEqual([code, /shard is not 0 to 63/.test(problem)], ['SVC_OUTBOX_STRAY_ROWS', true]);
  });

  it('migrate --partitioned is for PostgreSQL alone', async () => {
    const { code, stderr } = await svc('migrate', '--partitioned');
    assert.equal(code, 2, stderr);
    assert.match(stderr, /\nsvc: --partitioned is for PostgreSQL: SQLite has no partitions; remove it/);
  });

  it('ddl prints what it is asked for without any configuration', async () => {
    const { code, stdout } = await runSvc(
      ['outbox', 'ddl', '--dialect', 'mysql', '--role', 'app=orders@10.%'],
      {
        cwd: '/',
      },
    );
    assert.equal(code, 0);
    assert.match(stdout, /^CREATE TABLE IF NOT EXISTS `svc_outbox_events_schema`/);
    assert.match(stdout, /GRANT INSERT ON `svc_outbox_events` TO 'orders'@'10\.%'/);
    const postgres = await runSvc(['outbox', 'ddl', '--dialect', 'postgres'], { cwd: '/' });
    assert.match(postgres.stdout, /autovacuum_vacuum_scale_factor = 0\.01/);
    assert.equal((await runSvc(['outbox', 'ddl'], { cwd: '/' })).code, 2);
  });
});
