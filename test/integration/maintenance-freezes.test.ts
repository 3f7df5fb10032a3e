import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { createMysqlStore } from '../../src/adapters/mysql/mysql-store.ts';
import { createPostgresStore } from '../../src/adapters/postgres/postgres-store.ts';
import type { SqlStoreOptions } from '../../src/adapters/sql/sql-store.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { newTable, rowOf } from '../contract/outbox-store.ts';
import type { TestDatabase } from '../support/database.ts';
import { startFreezingLine } from '../support/freezing-line.ts';
import { startMariadb } from '../support/mariadb.ts';
import { startMysql } from '../support/mysql.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';

/** What these machines need beyond the server's own limit. */
const graceMs = 4_000;
/** A server takes about a hundred connections. */
const atOnce = 12;
const dayMs = 86_400_000;
const weekMs = 7 * dayMs;

/** After so long without a statement the server ends a session of svc's. */
const sessionMs = 15_000;
const databases = {
  postgres: { start: startPostgres, open: createPostgresStore, limitMs: 5_000 },
  // Locks with a name are the session's there, and each CREATE and ALTER ends its transaction.
  mariadb: { start: startMariadb, open: createMysqlStore, limitMs: sessionMs },
  mysql: { start: startMysql, open: createMysqlStore, limitMs: sessionMs },
} as const;

interface Scene {
  readonly table: string;
  readonly writer: OutboxStore;
  query(statement: string): Promise<Record<string, unknown>[]>;
}

interface Operation {
  readonly name: string;
  readonly on: readonly (keyof typeof databases)[];
  readonly options?: Partial<SqlStoreOptions>;
  before(scene: Scene): Promise<void>;
  run(store: OutboxStore): Promise<unknown>;
  /** Whether all is done that there was to do. */
  isDone(scene: Scene): Promise<boolean>;
}

const every = ['postgres', 'mariadb', 'mysql'] as const;

const operations: readonly Operation[] = [
  {
    name: 'tables are made',
    on: every,
    before: async () => {},
    run: (store) => store.prepare(),
    isDone: async ({ table, query }) =>
      Number((await query(`SELECT MAX(version) AS version FROM ${table}_schema`))[0]?.version) === 2,
  },
  {
    name: 'tables of an older svc are brought up to date',
    on: every,
    async before({ table, writer, query }) {
      await writer.prepare();
      await query(`ALTER TABLE ${table} DROP CONSTRAINT ${table}_valid`);
      await query(`DELETE FROM ${table}_schema WHERE version = 2`);
    },
    run: (store) => store.prepare(),
    isDone: async ({ writer }) => (await writer.missingGuard()) === undefined,
  },
  {
    name: 'old rows are deleted',
    on: every,
    async before({ table, writer, query }) {
      await writer.prepare();
      await writer.insert([rowOf(), rowOf()]);
      await query(`UPDATE ${table} SET status = 'PUBLISHED', published_at = created_at - interval '30' day`);
    },
    run: (store) => store.cleanup('PUBLISHED', weekMs, 1_000),
    isDone: async ({ writer }) => (await writer.statistics()).published === 0,
  },
  {
    name: 'partitions are made and dropped',
    on: ['postgres'],
    options: { partitioned: true },
    async before({ table, writer, query }) {
      await writer.prepare();
      const [found] = await query(
        `SELECT max(inhrelid::regclass::text) AS last FROM pg_inherits WHERE inhparent = '${table}'::regclass AND inhrelid::regclass::text NOT LIKE '%_default'`,
      );
      await query(`DROP TABLE ${found?.last}`);
      await query(
        `CREATE TABLE ${table}_p20250101 PARTITION OF ${table} FOR VALUES FROM ('2025-01-01 00:00:00+00') TO ('2025-01-02 00:00:00+00')`,
      );
    },
    run: (store) => store.partition(weekMs),
    async isDone({ table, query }) {
      const found = await query(
        `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = '${table}'::regclass`,
      );
      return found.length === 5 && !found.some(({ name }) => String(name).endsWith('20250101'));
    },
  },
];

for (const [name, { start, open, limitMs }] of Object.entries(databases))
  requiring(name as keyof typeof databases, `whoever stands still while, ${name}:`, function () {
    this.timeout(150_000);
    let server: TestDatabase;
    let url: string;
    const closing: (() => unknown)[] = [];
    const closeAll = () => Promise.all(closing.splice(0).map((close) => close()));

    before(async () => {
      server = await start();
      url = await server.freshDatabase();
    });
    afterEach(closeAll);

    for (const operation of operations.filter(({ on }) => on.some((one) => one === name)))
      it(`${operation.name}, after any of the statements, holds up others for ${limitMs / 1_000} s at most`, async () => {
        const { messages } = await stand(operation, Number.POSITIVE_INFINITY);
        const all = Array.from({ length: messages }, (_, index) => index + 1);
        const results: Stand[] = [];
        while (all.length > 0) {
          results.push(...(await Promise.all(all.splice(0, atOnce).map((after) => stand(operation, after)))));
          await closeAll();
        }
        assert.deepEqual(
          results.filter(({ ms }) => ms > limitMs + graceMs),
          [],
        );
      });

    interface Stand {
      readonly messages: number;
      readonly ms: number;
    }

    /** How long others take for the same, and to store, claim and mark a row, when one stands still after so many messages. */
    async function stand(operation: Operation, after: number): Promise<Stand> {
      const table = newTable();
      const opened = (options: Partial<SqlStoreOptions>): OutboxStore => {
        const all = { url, table, initializeSchema: 'always' as const, ...operation.options, ...options };
        const store = open(all);
        closing.push(() => store.close(500));
        return store;
      };
      const writer = opened({ timeoutMs: 30_000 });
      const scene = { table, writer, query: (statement: string) => server.query(url, statement) };
      await operation.before(scene);
      const line = await startFreezingLine(url, after);
      closing.push(line.close);
      const work = operation.run(opened({ url: line.url })).catch(() => {});
      await Promise.race([line.frozen, work]);
      const fromMs = performance.now();
      const other = opened({ timeoutMs: 30_000 });
      await other.prepare();
      await other.insert([rowOf()]);
      const shards = await other.claim('other', 60_000);
      const ids = (await other.pending(shards, { upToId: 0, ids: [] }, 10)).map(({ id }) => id);
      assert.deepEqual(await other.ack('other', ids, false), ids);
      for (; !(await operation.isDone(scene)); await sleep(100)) {
        if (performance.now() - fromMs > 2 * (limitMs + graceMs)) break;
        await operation.run(other);
      }
      return { messages: line.messages(), ms: performance.now() - fromMs };
    }
  });
