import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import mysql from 'mysql2/promise';
import { startDebezium } from '../../scripts/services/debezium.ts';
import type { LocalServer } from '../../scripts/services/local-server.ts';
import { rowStatements } from '../../src/outbox/insert-row.ts';
import type { OutboxRow } from '../../src/outbox/outbox-row.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { outboxRow } from '../cli/outbox-folder.ts';
import { hostEnvironment } from '../e2e/support/run-app.ts';
import type { TestDatabase } from '../support/database.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import type { ReadRecord } from '../support/kafka-records.ts';
import { startOwnMariadb } from '../support/mariadb.ts';
import { startOwnMysql } from '../support/mysql.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';
import { until as untilSo } from '../support/until.ts';

const main = resolve(import.meta.dirname, '../../src/cli/main.ts');
const password = 'known to Kafka Connect only';
const ownHeaders = ['--header', 'tenant', '--header', 'x-Source.Name'];

/** What a record is made of, its place in time aside. */
function contentOf({ partition, key, headers, valueBytes }: ReadRecord): object {
  return { partition, key, headers: Object.entries(headers), value: valueBytes };
}

/** In binary mode, with a key outside ASCII. */
const cloudEvent = {
  ...{ ce_specversion: '1.0', ce_id: '5', ce_source: '/orders', ce_type: 'ORDERED' },
  ...{ ce_time: '2026-11-25T00:00:00.000Z', ce_subject: 'ключ "7"' },
  ...{ ce_recordedtime: '2026-11-25T00:00:00.001Z', ce_severitytext: 'INFO', ce_severitynumber: '9' },
  ...{ ce_userid: 'u-1', ce_tags: '{"a":"\\u007f"}', ce_traceparent: '00-…-01' },
};

function rowsFor(topic: string): OutboxRow[] {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const row = (eventId: string, headers: object, rest: Partial<OutboxRow> = {}): OutboxRow =>
    outboxRow({
      ...{ eventId, topic, key: `key-${eventId}`, aggregateId: `key-${eventId}` },
      headers: { eventId, eventType: 'ORDERED', 'content-type': 'application/json', traceparent, ...headers },
      ...rest,
    });
  return [
    row('1', {}),
    row('2', { tracestate: 'vendor=1', tenant: 'acme', 'x-Source.Name': 'web' }),
    row('3', { tenant: '' }, { key: 'ключ "7"', payload: Buffer.from([0, 255, 10, 13, 0xfe]) }),
    row('5', cloudEvent),
    row('4', { 'x-Source.Name': '{"a": "\\ü\n1"}' }, { payload: Buffer.from('  {"b": [1.0]}  ') }),
  ];
}

async function eraseThree(url: string, topic: string): Promise<number> {
  const connection = await mysql.createConnection(url.replace(/^mariadb:/, 'mysql:'));
  const table = 'svc_outbox_events';
  const row = outboxRow({ eventId: 'erased', topic });
  const { insert, erase } = rowStatements(table, 'mysql');
  for (let times = 0; times < 3; times++)
    for (const { text, values } of [insert(row), erase?.(row) ?? { text: '', values: [] }])
      await connection.execute(text, [...values]);
  await connection.end();
  return 3;
}

const needs = ['kafka', 'own-debezium', 'postgres', 'own-mariadb', 'own-mysql'] as const;
requiring(needs, 'the outbox by Debezium, as `svc outbox debezium` configures it', function () {
  this.timeout(120_000);
  let kafka: TestKafka;
  let worker: LocalServer;

  before(async () => {
    kafka = await startKafka();
    process.env.SVC_OUTBOX_PASSWORD = password;
    worker = await startDebezium({
      brokers: kafka.brokers,
      workerProperties: {
        'config.providers': 'env',
        'config.providers.env.class': 'org.apache.kafka.common.config.provider.EnvVarConfigProvider',
      },
    });
    delete process.env.SVC_OUTBOX_PASSWORD;
  });
  after(() => worker?.stop());

  const until = (what: string, isSo: () => Promise<boolean>): Promise<void> => {
    const say = (): string => `${what}\n${readFileSync(worker.logFile, 'utf8').slice(-6_000)}`;
    return untilSo(isSo, { limitMs: 40_000, everyMs: 100, say });
  };

  async function connect(connector: { name: string }): Promise<void> {
    const before = readFileSync(worker.logFile, 'utf8').length;
    const response = await fetch(`${worker.address}/connectors`, {
      ...{ method: 'POST', body: JSON.stringify(connector) },
      headers: { 'content-type': 'application/json' },
    });
    assert.equal(response.status, 201, await response.text());
    await until('the connector', async () =>
      readFileSync(worker.logFile, 'utf8').slice(before).includes('Starting streaming'),
    );
  }

  async function relay(env: Record<string, string>, isDone: () => Promise<boolean>): Promise<void> {
    const child = spawn(process.execPath, [main, 'relay'], {
      env: { ...hostEnvironment(), ...env, MANAGEMENT_SERVER_PORT: '0' },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    try {
      await until('the relay', isDone);
    } finally {
      child.kill('SIGTERM');
      await once(child, 'close');
    }
  }

  async function sendsTheSame(database: TestDatabase, url: string, user: string): Promise<void> {
    const name = new URL(url).pathname.slice(1);
    const topic = `debezium-${name}`;
    await kafka.createTopic(topic, { partitions: 4 });
    const store = openOutboxStore({ url, table: 'svc_outbox_events', initializeSchema: 'always' });
    try {
      await store.prepare();
      const env = {
        SVC_OUTBOX_ENABLED: 'true',
        SVC_OUTBOX_DATASOURCE_URL: url,
        SVC_BROKER_BOOTSTRAP_SERVERS: kafka.brokers.join(','),
        SVC_BROKER_TOPIC: 'others',
        SVC_SERDE_ENVELOPE: 'cloudevents',
      };
      const svc = async (args: string[], more: Record<string, string> = {}): Promise<string> => {
        const all = ['outbox', 'debezium', ...ownHeaders, ...args];
        const { code, stdout, stderr } = await runSvc(all, { env: { ...env, ...more } });
        assert.equal(code, 0, stderr);
        return stdout;
      };
      await database.query(url, await svc(['--sql']));
      await store.insert([outboxRow({ eventId: 'before the connector', topic })]);
      const slot = name.toLowerCase();
      await connect(JSON.parse(await svc(['--name', name, '--user', user, '--slot', slot])));
      const rows = rowsFor(topic);
      await store.insert(rows);
      await until('its records', async () => (await kafka.count(topic)) >= rows.length);
      await relay(env, async () => (await kafka.count(topic)) >= 2 * rows.length + 1);

      const erasing = { SVC_OUTBOX_PUBLISHER_ENABLED: 'false', SVC_OUTBOX_RETENTION_DAYS: '0' };
      if (store.name === 'postgres') await database.query(url, await svc(['--sql'], erasing));
      const eraser = openOutboxStore({
        ...{ url, table: 'svc_outbox_events', initializeSchema: 'never', erases: true },
      });
      await eraser.insert([outboxRow({ eventId: 'erased', topic })]);
      await eraser.close(1_000);
      // Prepared once, as on a connection of the application.
      const alone = store.name === 'mysql' ? await eraseThree(url, topic) : 0;
      const left = await store.read({ topic }, 0, 100);
      assert.deepEqual(left.map(({ eventId }) => eventId).sort(), [
        '1',
        '2',
        '3',
        '4',
        '5',
        'before the connector',
      ]);

      const count = 2 * rows.length + 2 + alone;
      const records = await kafka.read(topic, { count });
      for (const { eventId } of rows) {
        const [byDebezium, byRelay, ...more] = records.filter(({ headers }) => headers.eventId === eventId);
        assert.ok(byDebezium && byRelay);
        assert.equal(more.length, 0);
        assert.deepEqual(contentOf(byDebezium), contentOf(byRelay));
      }
      assert.equal(records.filter(({ headers }) => headers.eventId === 'erased').length, 1 + alone);
      assert.equal(records.length, count);
    } finally {
      await fetch(`${worker.address}/connectors/${name}`, { method: 'DELETE' });
      await store.close(1_000);
    }
  }

  it('sends the records that the relay sends, of PostgreSQL', async () => {
    const server = await startPostgres();
    const url = await server.freshDatabase();
    const slot = new URL(url).pathname.slice(1);
    const user = `${slot}_replica`;
    await server.query(url, `CREATE ROLE ${user} LOGIN REPLICATION PASSWORD '${password}'`);
    await server.query(url, `ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO ${user}`);
    try {
      await sendsTheSame(server, url, user);
    } finally {
      await until('the end of the slot', async () => {
        const inactive = `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '${slot}' AND NOT active`;
        await server.query(url, inactive);
        const left = `SELECT FROM pg_replication_slots WHERE slot_name = '${slot}'`;
        return (await server.query(url, left)).length === 0;
      });
      await server.query(url, `DROP OWNED BY ${user}`);
      await server.query(url, `DROP ROLE ${user}`);
    }
  });

  for (const [title, startOwn] of [
    ['MariaDB', startOwnMariadb],
    ['MySQL', startOwnMysql],
  ] as const)
    it(`sends the records that the relay sends, of ${title}`, async () => {
      const server = await startOwn({ replicates: true });
      try {
        await server.query(server.url, `CREATE USER replica IDENTIFIED BY '${password}'`);
        const rights = 'SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT';
        await server.query(server.url, `GRANT ${rights} ON *.* TO replica`);
        await sendsTheSame(server, await server.freshDatabase(), 'replica');
      } finally {
        await server.stop();
      }
    });
});
