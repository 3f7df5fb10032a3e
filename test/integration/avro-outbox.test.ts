import assert from 'node:assert/strict';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createAvroReader } from '../../src/adapters/schema-registry/avro-reader.ts';
import type { StoredRow } from '../../src/outbox/outbox-store.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { startApp } from '../e2e/support/start-app.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { startMariadb } from '../support/mariadb.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';
import { type OwnRegistry, startOwnSchemaRegistry } from '../support/schema-registry.ts';

const root = resolve(import.meta.dirname, '../..');

/** Places each order in a transaction of its own. */
const orders = {
  pg: `export async function place(client, id) { await client.query('INSERT INTO orders (id) VALUES ($1)', [id]); return { id, n: Number(id) }; }`,
  mysql2: `export async function place(client, id) { await client.query('INSERT INTO orders (id) VALUES (?)', [id]); return { id, n: Number(id) }; }`,
  'better-sqlite3': `export function place(client, id) { client.prepare('INSERT INTO orders (id) VALUES (?)').run(id); return { id, n: Number(id) }; }`,
};
const mains = {
  pg: `import pg from 'pg';
    const client = new pg.Client({ connectionString: process.env.APP_URL });
    await client.connect();
    const run = async (id) => { await client.query('BEGIN'); await place(client, id); await client.query('COMMIT'); };
    const close = () => client.end();`,
  mysql2: `import mysql from 'mysql2/promise';
    const client = await mysql.createConnection(process.env.APP_URL);
    const run = async (id) => { await client.query('BEGIN'); await place(client, id); await client.query('COMMIT'); };
    const close = () => client.end();`,
  'better-sqlite3': `import Database from 'better-sqlite3';
    const client = new Database(process.env.APP_URL.slice('sqlite:'.length));
    const run = async (id) => client.transaction(() => place(client, id))();
    const close = () => client.close();`,
};
type Driver = keyof typeof mains;

const driversOf: readonly { driver: Driver; name: string; needs: readonly ('postgres' | 'mariadb')[] }[] = [
  { driver: 'pg', name: 'PostgreSQL', needs: ['postgres'] },
  { driver: 'mysql2', name: 'MariaDB', needs: ['mariadb'] },
  { driver: 'better-sqlite3', name: 'SQLite', needs: [] },
];

for (const { driver, name, needs } of driversOf)
  requiring(['kafka', 'schema-registry', ...needs], `Avro out of an outbox in ${name}`, function () {
    this.timeout(90_000);
    let kafka: TestKafka;
    let registry: OwnRegistry;
    const folder = temporaryFolder('avro-outbox');

    before(async () => {
      [kafka, registry] = await Promise.all([startKafka(), startOwnSchemaRegistry()]);
    });
    after(async () => {
      await registry.stop();
    });

    async function freshUrl(): Promise<string> {
      if (driver === 'better-sqlite3') return `sqlite:${join(folder, 'app.db')}`;
      const server = await (driver === 'pg' ? startPostgres() : startMariadb());
      return server.freshDatabase();
    }

    it('rows wait as JSON while the registry is away, all are sent as Avro in their order, and again by a replay', async () => {
      const [url, topic] = [await freshUrl(), `avro-outbox-${driver}-${Date.now()}`];
      await kafka.createTopic(topic);
      await registry.kill();
      symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
      const target = {
        ...{ module: './orders.mjs', function: 'place', eventType: 'ORDERED' },
        outbox: { aggregateType: 'Order', aggregateId: '1' },
      };
      const config = {
        svc: {
          broker: { bootstrapServers: kafka.brokers, topic },
          serde: { type: 'AVRO', schemaRegistryUrl: registry.url },
          outbox: { enabled: true, initializeSchema: 'always', datasource: { url } },
          idGenerator: { type: 'uuidv7' },
          targets: [target],
        },
        management: { server: { port: 0 } },
      };
      const app = await startApp({
        app: folder,
        files: {
          'orders.mjs': orders[driver],
          'package.json': '{}',
          'svc.config.json': config,
          'main.mjs': `import { existsSync } from 'node:fs';
            import { place } from './orders.mjs';
            ${mains[driver]}
            ${driver === 'better-sqlite3' ? 'client.exec' : 'await client.query'}('CREATE TABLE orders (id varchar(20) PRIMARY KEY)');
            for (const id of [1, 2]) await run(String(id));
            console.log('two placed');
            while (!existsSync('go')) await new Promise((done) => setTimeout(done, 50));
            await run('3');
            await close();`,
        },
        args: ['--import', join(root, 'dist/register.mjs'), 'main.mjs'],
        env: { APP_URL: url },
        timeoutMs: 80_000,
      });
      await app.waitFor(/the events for topic "\S+" wait in their table: schema registry at/);
      await registry.restart();
      const reader = createAvroReader({ url: registry.url });
      const sent = async (count: number): Promise<number[]> => {
        const records = await kafka.read(topic, { count, timeoutMs: 30_000 });
        const events = await Promise.all(records.map(({ valueBytes }) => reader.read(valueBytes as Buffer)));
        return events.map((event) => (event as { payload: { n: number } }).payload.n);
      };
      assert.deepEqual(await sent(2), [1, 2]);
      writeFileSync(join(app.folder, 'go'), '');
      assert.equal((await app.ended).code, 0);
      assert.deepEqual(await sent(3), [1, 2, 3]);

      const store = openOutboxStore({ url, table: 'svc_outbox_events', initializeSchema: 'never' });
      const rows: readonly StoredRow[] = await store.read({}, 0, 10);
      await store.close(1_000);
      assert.deepEqual(
        rows.map(({ payload, headers }) => [payload[0], headers['svc-avro-schema'], headers['content-type']]),
        [
          [0x7b, 'svc.events.ORDERED', 'application/json'],
          [0x7b, 'svc.events.ORDERED', 'application/json'],
          [0, undefined, 'application/avro'],
        ],
      );

      const replay = await runSvc(['outbox', 'replay', '--since', '1h'], { cwd: app.folder });
      assert.equal(replay.code, 0, replay.stderr);
      assert.deepEqual(await sent(6), [1, 2, 3, 1, 2, 3]);
    });
  });
