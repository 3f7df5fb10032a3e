import assert from 'node:assert/strict';
import sinon from 'sinon';
import { createMysqlStore } from '../../src/adapters/mysql/mysql-store.ts';
import { createPostgresStore } from '../../src/adapters/postgres/postgres-store.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { newTable, rowOf } from '../contract/outbox-store.ts';
import type { TestDatabase } from '../support/database.ts';
import { startMariadb } from '../support/mariadb.ts';
import { startMysql } from '../support/mysql.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const databases = {
  postgres: { start: startPostgres, open: createPostgresStore },
  mariadb: { start: startMariadb, open: createMysqlStore },
  mysql: { start: startMysql, open: createMysqlStore },
} as const;

for (const [name, { start, open }] of Object.entries(databases))
  requiring(name as keyof typeof databases, `a machine whose clock is wrong, on ${name}`, function () {
    this.timeout(30_000);
    let server: TestDatabase;
    let url: string;
    let table: string;
    let store: OutboxStore;
    const opened: OutboxStore[] = [];
    const openStore = (partitioned = false): OutboxStore => {
      const made = open({ url, table, initializeSchema: 'always', partitioned });
      opened.push(made);
      return made;
    };
    const query = (statement: string) => server.query(url, statement);
    /** The clock of this process, and nothing else of it. */
    const setClock = (offMs: number): void =>
      void sinon.useFakeTimers({ now: Date.now() + offMs, toFake: ['Date'] });

    before(async () => {
      server = await start();
      url = await server.freshDatabase();
    });
    beforeEach(async () => {
      table = newTable();
      store = openStore();
    });
    afterEach(async () => {
      sinon.restore();
      await Promise.all(opened.splice(0).map((one) => one.close(1_000)));
    });

    for (const offHours of [3, -3]) {
      const clock = `${Math.abs(offHours)} h ${offHours > 0 ? 'ahead' : 'behind'}`;

      it(`${clock}: deletes rows when they are as old as they are to be by the database's clock, and not before`, async () => {
        await store.prepare();
        for (const hours of [0, 1, 5]) {
          await store.insert([rowOf({ topic: `t${hours}` })]);
          await query(
            `UPDATE ${table} SET status = 'PUBLISHED', published_at = created_at - interval '${hours}' hour WHERE topic = 't${hours}'`,
          );
        }
        setClock(offHours * hourMs);
        assert.equal(await store.cleanup('PUBLISHED', 2 * hourMs, 10), 1);
        assert.deepEqual(
          (await store.read({}, 0, 10)).map(({ topic }) => topic),
          ['t0', 't1'],
        );
      });

      it(`${clock}: takes leases for as long as they are, from nobody who has them, and waits as long for the next try`, async () => {
        await store.prepare();
        await store.insert([rowOf()]);
        const shards = await store.claim('right', 60_000);
        setClock(offHours * hourMs);
        const wrong = openStore();
        let saysMs = 0;
        const onTime = (nowMs: number): void => {
          saysMs = nowMs;
        };
        assert.deepEqual(await wrong.claim('wrong', 60_000, { onTime }), []);
        assert.ok(Math.abs(Date.now() - offHours * hourMs - saysMs) < 10_000);
        await store.release('right');
        assert.equal((await wrong.claim('wrong', 60_000)).length, shards.length);
        const [holder] = await wrong.holders();
        assert.ok(holder !== undefined && holder.leaseMs > 50_000 && holder.leaseMs <= 60_000);
        const none = { upToId: 0, ids: [] };
        const [row] = await wrong.pending(shards, none, 1);
        const failure = { id: row?.id ?? 0, retryCount: 1, lastError: 'no', retryInMs: 30_000 };
        await wrong.fail('wrong', [failure]);
        const [{ waitMs = 0 } = {}] = await wrong.pending(shards, none, 1);
        assert.ok(waitMs > 20_000 && waitMs <= 30_000, `${waitMs}`);
      });
    }

    if (name === 'postgres')
      it('30 days ahead: makes the partitions of the next days by the database, and drops none before its time', async () => {
        setClock(30 * dayMs);
        const partitioned = openStore(true);
        const partitions = async (): Promise<unknown[]> =>
          (
            await query(
              `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = '${table}'::regclass ORDER BY 1`,
            )
          ).map(({ name }) => name);
        await partitioned.prepare();
        const before = await partitions();
        await partitioned.insert([rowOf()]);
        await query(`UPDATE ${table} SET status = 'PUBLISHED', published_at = created_at`);
        await partitioned.partition(7 * dayMs);
        assert.deepEqual(await partitions(), before);
        const [day] = await query(`SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD') AS today`);
        assert.ok(before.includes(`${table}_p${day?.today}`), `${before}`);
        assert.equal((await partitioned.statistics()).published, 1);
      });
  });
