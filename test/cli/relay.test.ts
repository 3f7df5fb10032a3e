import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { hostEnvironment } from '../e2e/support/run-app.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';
import { until as untilSo } from '../support/until.ts';
import { type OutboxFolder, outboxFolder } from './outbox-folder.ts';

const main = resolve(import.meta.dirname, '../../src/cli/main.ts');

interface Relaying {
  readonly child: ChildProcess;
  says(pattern: RegExp): Promise<RegExpExecArray>;
  stop(signal: NodeJS.Signals): Promise<number | null>;
  stderr(): string;
}

describe('svc relay', function () {
  this.timeout(40_000);
  let folder: OutboxFolder;
  let relaying: Relaying | undefined;
  beforeEach(async () => {
    folder = await outboxFolder();
  });
  afterEach(async () => {
    await relaying?.stop('SIGKILL');
    relaying = undefined;
    await folder.remove();
  });

  const until = (isSo: () => Promise<boolean> | boolean): Promise<void> =>
    untilSo(isSo, { limitMs: 15_000, say: () => relaying?.stderr() });

  function start(env: Record<string, string> = {}): Relaying {
    const child = spawn(process.execPath, [main, 'relay'], {
      cwd: folder.path,
      env: { ...hostEnvironment(), ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let text = '';
    child.stderr.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    const ended = once(child, 'close').then(([code]) => code as number | null);
    relaying = {
      child,
      stderr: () => text,
      async says(pattern) {
        await until(() => pattern.test(text));
        return pattern.exec(text) as RegExpExecArray;
      },
      stop(signal) {
        child.kill(signal);
        return ended;
      },
    };
    return relaying;
  }

  it('sends rows that are there and rows that come, with health and metrics, and stops in order', async () => {
    await folder.put('PENDING', { eventId: '1' }, { eventId: '2', aggregateId: 'b' });
    const relay = start();
    await relay.says(/svc: relay: sends the rows of svc_outbox_events \(sqlite\) to files in /);
    const [, address] = await relay.says(/management on (http:\S+)\/metrics/);
    await until(() => folder.topic('events').length === 2);
    await folder.put('PENDING', { eventId: '3' });
    await until(
      async () => Object.values(await folder.statuses()).join() === 'PUBLISHED,PUBLISHED,PUBLISHED',
    );
    const metrics = await (await fetch(`${address}/metrics`)).text();
    assert.match(metrics, /^svc_outbox_processed_total\{eventType="[^"]+",outcome="published"\} 3$/m);
    assert.match(metrics, /^svc_circuit_state\{breaker="outbox"\} 0$/m);
    const health = await fetch(`${address}/actuator/health/svc`);
    const { status, details } = (await health.json()) as {
      status: string;
      details: { outbox: Record<string, unknown> };
    };
    const { timeSinceLastSuccessMs, ...outbox } = details.outbox;
    assert.deepEqual(
      [health.status, status, outbox],
      [
        ...[200, 'UP'],
        {
          ...{ status: 'UP', circuitBreakerState: 'CLOSED', consecutiveFailures: 0 },
          ...{ totalPending: 0, totalFailed: 0, oldestPendingMs: null },
        },
      ],
    );
    assert.equal(typeof timeSinceLastSuccessMs, 'number');
    const statistics = (await (await fetch(`${address}/actuator/svc-outbox`)).json()) as object;
    assert.equal((statistics as { published: number }).published, 3);
    const flat = await (await fetch(`${address}/actuator/svc-metrics?shape=flat`)).json();
    const { lastPublishTime, ...counts } = flat as Record<string, unknown>;
    assert.deepEqual(counts, { eventsPublished: 3, eventsFailed: 0, dlqEvents: 0, outboxPending: 0 });
    assert.ok(Math.abs(Date.now() - Date.parse(String(lastPublishTime))) < 15_000);

    assert.equal(await relay.stop('SIGTERM'), 0);
    assert.match(relay.stderr(), /svc: relay: stops after the current batch\n$/);
    // Nobody has to wait for its leases.
    assert.equal((await folder.store.claim('next', 10_000)).length, 64);
  });

  it('replays over HTTP for whoever has the token that acts, one at a time', async () => {
    await folder.put('PUBLISHED', { eventId: '1' }, { eventId: '2', aggregateId: 'b' });
    const token = 'a-token-that-may-act';
    const relay = start({ MANAGEMENT_SERVER_ACTION_TOKEN: token });
    const [, address] = await relay.says(/management on (http:\S+)\/metrics/);
    const post = async (body: object, authorization = `Bearer ${token}`) => {
      const headers = { 'content-type': 'application/vnd.svc.actuator.v3+json', authorization };
      const answer = await fetch(`${address}/actuator/svc-outbox`, {
        ...{ method: 'POST', headers, body: JSON.stringify(body) },
      });
      return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
    };
    const since = '2026-03-04T10:00:00Z';
    assert.equal((await post({ since }, 'Bearer of-somebody-else')).status, 401);
    const answers = await Promise.all([post({ since }), post({ since })]);
    const [done, busy] = answers.sort((a, b) => a.status - b.status);
    assert.deepEqual(done, {
      status: 200,
      body: { since, limit: 1000, total: 2, success: 2, failed: 0, failedEventIds: [] },
    });
    assert.deepEqual(busy, {
      status: 409,
      body: {
        ...{ type: 'about:blank', title: 'Conflict', status: 409 },
        detail: 'a replay is already running: wait until it ends',
      },
    });
    assert.deepEqual(
      folder.topic('events').map(({ headers }) => [headers.eventId, headers['svc-replay']]),
      [
        ['1', 'true'],
        ['2', 'true'],
      ],
    );
    assert.equal(await relay.stop('SIGTERM'), 0);
  });

  it('Ctrl-C stops it in order', async () => {
    const relay = start();
    await relay.says(/relay: sends the rows/);
    assert.equal(await relay.stop('SIGINT'), 0);
  });

  requiring('proc', 'after kill -9 on the same host', () => {
    it('the next one takes over at once, where the rows waited for the lease, and says so', async () => {
      const first = start();
      await folder.put('PENDING', { eventId: '1' });
      await until(async () => (await folder.store.statistics()).published === 1);
      await first.stop('SIGKILL');
      await folder.put('PENDING', { eventId: '2' });
      const startMs = performance.now();
      const next = start();
      await until(() => folder.topic('events').length === 2);
      assert.ok(performance.now() - startMs < 9_000, 'half of the lease');
      const gone = new RegExp(`svc: outbox: the process \\S+:${first.child.pid} of this host has ended`);
      assert.match(next.stderr(), gone);
      assert.equal(await next.stop('SIGTERM'), 0);
    });
  });

  it('says whose leases it waits for, and until when, where it cannot know whether they are gone', async () => {
    await folder.store.claim('elsewhere:17:2b1c2d3e-0000-4000-8000-000000000000', 17_500);
    const relay = start();
    const [, seconds] = await relay.says(
      /64 of 64 shards are held by other relays: 64 by elsewhere:17 until [\d:]{8}Z \((\d+) s\)\. A live relay/,
    );
    assert.ok(Number(seconds) > 5 && Number(seconds) <= 18, seconds);
    await folder.store.release('elsewhere:17:2b1c2d3e-0000-4000-8000-000000000000');
  });

  it('begins when a database that is away comes back', async () => {
    await folder.put('PENDING', { eventId: '1' });
    const lock = new DatabaseSync(join(folder.path, 'outbox.db'));
    lock.exec('BEGIN EXCLUSIVE');
    const relay = start();
    await relay.says(/svc: warn: relay: waits for the database: SQLite in .* has not answered/);
    lock.exec('COMMIT');
    lock.close();
    await until(() => folder.topic('events').length === 1);
    assert.equal(await relay.stop('SIGTERM'), 0);
  });

  it('can be stopped while it waits for the database', async () => {
    const lock = new DatabaseSync(join(folder.path, 'outbox.db'));
    lock.exec('BEGIN EXCLUSIVE');
    const relay = start();
    await relay.says(/waits for the database/);
    assert.equal(await relay.stop('SIGTERM'), 0);
    lock.close();
  });

  it('goes on through an outage of the broker, and no row loses a try', async () => {
    // A file where the folder of the topics has to be.
    const topics = join(folder.path, 'blocked');
    writeFileSync(topics, '');
    await folder.put('PENDING', { eventId: '1' });
    const relay = start({ SVC_BROKER_FILE_PATH: topics });
    await relay.says(/svc: (error|warn): .*blocked/);
    const [row] = await folder.store.read({}, 0, 1);
    assert.deepEqual([row?.status, row?.retryCount], ['PENDING', 0]);
    assert.equal(await relay.stop('SIGTERM'), 0);
  });

  for (const [config, code, says] of [
    [
      { svc: { broker: { client: 'file', topic: 'events' } } },
      2,
      /^svc: the outbox is off: set svc\.outbox\.enabled: true; see npx --no svc relay --help\n$/,
    ],
    [{ svc: { enabled: false } }, 2, /^svc: svc\.enabled is false: there is nothing to relay;/],
    [
      {
        svc: {
          broker: { client: 'file', topic: 'events' },
          outbox: {
            ...{ enabled: true, datasource: { url: 'mysql://a@127.0.0.1:1/a' } },
            ...{ publisherEnabled: false, retentionDays: 0 },
          },
        },
      },
      2,
      /^svc: svc\.outbox\.publisher-enabled: false with svc\.outbox\.retention-days: 0 is for Debezium, .* set svc\.outbox\.retention-days to 1 or more/,
    ],
    [
      { svc: { outbox: { enabled: true } } },
      2,
      /^svc: svc\.outbox\.datasource\.url: is required when svc\.outbox\.enabled is true/,
    ],
    [
      { svc: { outbox: { enabled: true, datasource: { url: 'sqlite:./outbox.db' } } } },
      2,
      /svc: no broker: give --broker/,
    ],
    [
      {
        svc: {
          broker: { client: 'file' },
          outbox: { enabled: true, datasource: { url: 'sqlite:./outbox.db' } },
        },
        management: { server: { port: 'x' } },
      },
      2,
      /^svc: management\.server\.port: must be an integer/,
    ],
    [
      {
        svc: {
          broker: { client: 'file' },
          outbox: {
            enabled: true,
            'initialize-schema': 'never',
            table: 'nothing_here',
            datasource: { url: 'sqlite:./outbox.db' },
          },
        },
      },
      1,
      /svc: error: relay: SQLite in .* has no table nothing_here of the outbox/,
    ],
  ] as const)
    it(`does not start: ${says.source}`, async () => {
      writeFileSync(join(folder.path, 'svc.config.json'), JSON.stringify(config));
      const end = await runSvc(['relay'], { cwd: folder.path });
      assert.match(end.stderr, says);
      assert.equal(end.code, code);
    });

  it('without any configuration says where it looked', async () => {
    const end = await runSvc(['relay'], { cwd: '/' });
    assert.equal(end.code, 2);
    assert.match(end.stderr, /svc\.config/);
  });
});
