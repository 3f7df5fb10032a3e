import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandTree } from '../../src/cli/commands.ts';
import { WrongUse } from '../../src/cli/terminal.ts';
import { temporaryFolder } from '../support/folders.ts';
import { type CommandEnd, runSvc } from '../support/run-svc.ts';

describe('svc outbox debezium', function () {
  this.timeout(60_000);
  const folder = temporaryFolder('debezium');

  const targets = [
    {
      module: './a.js',
      function: 'a',
      headers: { tenant: "'acme'" },
      outbox: { aggregateType: 'A', aggregateId: "'1'" },
    },
    { module: './a.js', function: 'b', headers: { direct: "'1'" } },
  ];
  function writeConfig(outbox: object): string {
    const datasource = { url: 'postgres://orders:hidden@db.internal/shop' };
    const all = { enabled: true, datasource, publisherEnabled: false, ...outbox };
    const broker = { topic: 'events', bootstrapServers: ['kafka:9092'] };
    const file = join(folder, 'svc.config.json');
    writeFileSync(file, JSON.stringify({ svc: { broker, targets, outbox: all } }));
    return file;
  }
  function svc(outbox: object, args: readonly string[] = []): Promise<CommandEnd> {
    writeConfig(outbox);
    return runSvc(['outbox', 'debezium', ...args], { cwd: folder });
  }

  it('prints a connector of PostgreSQL, which knows the database, the headers of targets, and no password', async () => {
    const { code, stdout, stderr } = await svc({ table: 'app.svc_outbox_events' });
    assert.equal(code, 0, stderr);
    assert.match(stderr, /^svc: configuration .*\n$/);
    assert.ok(!stdout.includes('hidden'));
    const { name, config } = JSON.parse(stdout);
    assert.equal(name, 'svc-outbox');
    const known = {
      'database.hostname': 'db.internal',
      'database.port': '5432',
      'database.user': 'orders',
      'database.password': `\${env:SVC_OUTBOX_PASSWORD}`,
      'database.dbname': 'shop',
      'table.include.list': 'app\\.svc_outbox_events',
      'slot.name': 'svc_outbox',
      'publication.name': 'svc_outbox',
      'topic.prefix': 'svc-outbox',
    };
    assert.deepEqual(Object.fromEntries(Object.keys(known).map((each) => [each, config[each]])), known);
    const placed = config['transforms.outbox.table.fields.additional.placement'];
    assert.match(placed, /,tenant_header:header:tenant$/);
    assert.ok(!placed.includes('direct'));
    assert.ok(!placed.includes('ce_'));
  });

  it('knows the headers of CloudEvents in binary mode', async () => {
    writeConfig({});
    const columns = async (mode: string): Promise<number> => {
      const env = { SVC_SERDE_ENVELOPE: 'cloudevents', SVC_SERDE_CLOUDEVENTS_MODE: mode };
      const { stdout } = await runSvc(['outbox', 'debezium', '--sql'], { cwd: folder, env });
      return stdout.match(/NEW\."ce_[a-z0-9]+_header" := /g)?.length ?? 0;
    };
    assert.deepEqual([await columns('binary'), await columns('structured')], [20, 0]);
  });

  it('prints a connector of MariaDB under other names', async () => {
    const given = [
      '--name',
      'shop-outbox',
      '--user',
      'replica',
      '--connector',
      'mariadb',
      '--topic-prefix',
      'shop',
    ];
    const url = 'mysql://orders:hidden@db.internal:3307/shop';
    const { stdout } = await svc({ datasource: { url } }, [
      ...given,
      '--password',
      `\${file:/run/db:password}`,
    ]);
    const { name, config } = JSON.parse(stdout);
    assert.equal(name, 'shop-outbox');
    const { 'connector.class': connector, 'database.port': port, 'database.user': user } = config;
    assert.deepEqual(
      [connector, port, user],
      ['io.debezium.connector.mariadb.MariaDbConnector', '3307', 'replica'],
    );
    assert.equal(config['schema.history.internal.kafka.topic'], 'shop.schema-history');
    assert.equal(config['schema.history.internal.kafka.bootstrap.servers'], 'kafka:9092');
    assert.ok(!stdout.includes('hidden'));
  });

  it('--sql deletes rows only where the configuration says so', async () => {
    const kept = await svc({}, ['--sql']);
    assert.match(kept.stdout, /ADD COLUMN IF NOT EXISTS "tenant_header" text/);
    assert.doesNotMatch(kept.stdout, /DELETE/);
    const erased = await svc({ retentionDays: 0 }, ['--sql', '--json']);
    const { dialect, table, sql } = JSON.parse(erased.stdout);
    assert.deepEqual([dialect, table], ['postgres', 'svc_outbox_events']);
    assert.match(sql, /DELETE FROM "svc_outbox_events" WHERE id = NEW\.id/);
  });

  it('says that a relay sends the events as well', async () => {
    const { code, stderr } = await svc({ publisherEnabled: true });
    assert.equal(code, 0);
    assert.match(stderr, /svc\.outbox\.publisher-enabled is true: relays also send each event/);
  });

  for (const [title, url, args, says] of [
    ['a password', 'postgres://a@db/shop', ['--password', 'hidden'], /--password takes a reference/],
    ['SQLite', 'sqlite:./a.db', [], /no connector for SQLite/],
    ['a database without a name', 'postgres://a@db', [], /needs the host and the name of the database/],
    ['another database', 'postgres://a@db/shop', ['--connector', 'mysql'], /--connector mysql does not fit/],
    ['no header', 'postgres://a@db/shop', ['--header', 'a:b'], /cannot add the header "a:b"/],
    ['a slot that PostgreSQL refuses', 'postgres://a@db/shop', ['--slot', 'A-b'], /--slot takes a name/],
  ] as const)
    it(`refuses ${title}`, async () => {
      const file = writeConfig({ datasource: { url } });
      await assert.rejects(
        commandTree().parseAsync(['outbox', 'debezium', '--config', file, ...args], { from: 'user' }),
        (error: Error) => {
          assert.ok(error instanceof WrongUse);
          assert.match(error.message, says);
          return !error.message.includes('hidden');
        },
      );
    });
});
