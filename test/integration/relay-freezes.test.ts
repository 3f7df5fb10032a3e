import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { createMysqlStore } from '../../src/adapters/mysql/mysql-store.ts';
import { createPostgresStore } from '../../src/adapters/postgres/postgres-store.ts';
import type { SqlStoreOptions } from '../../src/adapters/sql/sql-store.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import {
  createFakeBroker,
  type FakeBroker,
  invalid,
  relayOver,
  rowOf,
  until,
} from '../outbox/relay/relay-under-test.ts';
import type { TestDatabase } from '../support/database.ts';
import { startFreezingLine } from '../support/freezing-line.ts';
import { startMariadb } from '../support/mariadb.ts';
import { startMysql } from '../support/mysql.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';

const leaseMs = 2_000;
/** Beyond the lease: the next claim of the other relay, and what these machines need. */
const graceMs = 3_000;
/** Enough for the connection, the first claims, a read, an acknowledgement and a failure. */
const freezes = Array.from({ length: 18 }, (_, index) => index + 1);

const databases = {
  postgres: { start: startPostgres, open: createPostgresStore },
  mariadb: { start: startMariadb, open: createMysqlStore },
  mysql: { start: startMysql, open: createMysqlStore },
} as const;

for (const [name, { start, open }] of Object.entries(databases))
  requiring(name as keyof typeof databases, `a relay that stands still, ${name}`, function () {
    this.timeout(90_000);
    let server: TestDatabase;
    let url: string;
    const closing: (() => unknown)[] = [];

    const opened = (options: Partial<SqlStoreOptions>): OutboxStore => {
      const store = open({ url, table: 'rows', initializeSchema: 'always', timeoutMs: 1_500, ...options });
      closing.push(() => store.close(500));
      return store;
    };

    beforeEach(async () => {
      server = await start();
      url = await server.freshDatabase();
    });
    const closeAll = () => Promise.all(closing.splice(0).map((close) => close()));
    afterEach(closeAll);

    it('after any of its statements, or whose line is dead from then on, holds up others for its lease at most', async () => {
      // In halves: a server takes about a hundred connections.
      const halves = [freezes.slice(0, 9), freezes.slice(9)];
      const results: Awaited<ReturnType<typeof waitMs>>[] = [];
      for (const half of halves) {
        results.push(...(await Promise.all(half.map(waitMs))));
        await closeAll();
      }
      const late = results.filter(({ ms }) => ms > leaseMs + graceMs);
      assert.deepEqual(late, []);
      // Others than the first few stood still with shards in their hands.
      assert.ok(results.some(({ ms }) => ms > leaseMs / 2));
    });

    /** How long rows waited that came when one of two relays stood still, after so many messages to the server. */
    async function waitMs(after: number): Promise<{ after: number; ms: number }> {
      const table = `rows_${after}`;
      const line = await startFreezingLine(url, after);
      closing.push(line.close);
      const writer = opened({ table, timeoutMs: 20_000 });
      await writer.prepare();
      const startRelay = (at: string): FakeBroker => {
        const broker = createFakeBroker(() => performance.now());
        broker.reply = ({ records }) =>
          records.some(({ headers }) => headers.aggregateId === 'bad') ? invalid : undefined;
        const relay = relayOver(
          { store: opened({ table, url: at }), broker },
          { leaseMs, sendTimeoutMs: 300, pollIntervalMs: 100 },
        );
        closing.push(() => relay.stop(500));
        relay.start();
        return broker;
      };
      const insert = (aggregates: readonly string[]): Promise<void> =>
        writer.insert(aggregates.map((aggregate) => rowOf(aggregate, 0)));
      await insert(['bad', ...names('early')]);
      const frozen = startRelay(line.url);
      await Promise.race([line.frozen, sleep(1_500)]);
      const other = startRelay(url);
      const fromMs = performance.now();
      await insert(names('late'));
      const sent = () =>
        new Set([...frozen.stored, ...other.stored].map(({ headers }) => headers.aggregateId as string));
      try {
        await until(() => names('late').every((name) => sent().has(name)), leaseMs + graceMs + 2_000);
      } catch {
        return { after, ms: Number.POSITIVE_INFINITY };
      }
      return { after, ms: performance.now() - fromMs };
    }
  });

const names = (of: string): string[] => Array.from({ length: 16 }, (_, index) => `${of}-${index}`);
