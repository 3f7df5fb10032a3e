import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { createPostgresStore } from '../../../src/adapters/postgres/postgres-store.ts';
import { insertColumns } from '../../../src/outbox/insert-row.ts';
import type { OutboxStore } from '../../../src/outbox/outbox-store.ts';
import { useLogger } from '../../support/log.ts';
import { startOwnPostgres, startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
import { collectLines, createFakeBroker, inversions, relayOver, rowOf, until } from './relay-under-test.ts';

requiring('own-postgres', 'relay: over PostgreSQL', function () {
  this.timeout(60_000);

  it('loses no row and no order while the server is killed and started again', async () => {
    const server = await startOwnPostgres();
    const url = await server.freshDatabase();
    const options = { url, table: 'svc_outbox_events', timeoutMs: 1_000 };
    const open = (): OutboxStore => createPostgresStore({ ...options, initializeSchema: 'always' });
    const stores = [open(), open()];
    const [writer, other] = stores as [OutboxStore, OutboxStore];
    await writer.prepare();
    const { lines, logger } = collectLines();
    const broker = createFakeBroker(() => performance.now(), 5);
    broker.reply = async () => {
      await sleep(Math.random() * 8);
      return undefined;
    };
    const settings = { leaseMs: 1_500, sendTimeoutMs: 500, batchSize: 20 };
    const relays = [writer, other].map((store) => {
      useLogger(logger);
      return relayOver({ store, broker }, settings);
    });
    for (const relay of relays) relay.start();
    let sequence = 0;
    const ids = new Set<string>();
    for (let round = 0; round < 150; round++) {
      const rows = Array.from({ length: 10 }, () => rowOf(`a${sequence % 40}`, sequence++));
      await writer.insert(rows).then(
        () => {
          for (const { eventId } of rows) ids.add(eventId);
        },
        () => undefined,
      );
      relays[round % 2]?.wake();
      await sleep(20);
      if (round === 60) {
        await server.kill();
        await sleep(1_000);
        await server.restart();
      }
    }
    const areSent = (): boolean => {
      const sent = new Set(broker.stored.map(({ headers }) => headers.eventId));
      return [...ids].every((id) => sent.has(id));
    };
    await until(areSent, 30_000);
    await until(() => relays.every((relay) => relay.state().circuitBreakerState === 'CLOSED'));
    await sleep(1_000);
    assert.equal(await writer.countPending(), 0);
    assert.equal(inversions(broker.stored), 0);
    assert.ok(ids.size > 1_000, String(ids.size));
    assert.ok(lines.length > 0 && lines.length < 20, lines.join('\n'));
    await Promise.all(relays.map((relay) => relay.stop(2_000)));
    await Promise.all(stores.map((store) => store.close(1_000)));
    await server.stop();
  });
});

requiring('postgres', 'relay: rows of PostgreSQL that are large', function () {
  this.timeout(60_000);

  it('are read in smaller batches where those of the setting do not come in time', async () => {
    const url = await (await startPostgres()).freshDatabase();
    const open = (timeoutMs: number): OutboxStore =>
      createPostgresStore({ url, table: 'svc_outbox_events', initializeSchema: 'always', timeoutMs });
    const [writer, store] = [open(10_000), open(150)];
    await writer.prepare();
    const payload = Buffer.alloc(500_000, 'x');
    await writer.insert([rowOf('a0', 0, { payload })]);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const columns = insertColumns.filter((column) => column !== 'aggregate_id').join(', ');
    const others = `SELECT 'a' || n, ${columns} FROM svc_outbox_events, generate_series(1, 79) AS n`;
    await client.query(`INSERT INTO svc_outbox_events (aggregate_id, ${columns}) ${others}`);
    await client.end();
    const broker = createFakeBroker(() => performance.now(), 5);
    const limits: number[] = [];
    const { pending } = store;
    store.pending = (shards, except, limit) => {
      limits.push(limit);
      return pending(shards, except, limit);
    };
    const relay = relayOver({ store, broker }, { batchSize: 80 });
    relay.start();
    await until(() => broker.stored.length >= 80, 30_000);
    assert.equal(limits[0], 80);
    assert.ok(Math.min(...limits) < 80, limits.join());
    await relay.stop(2_000);
    await Promise.all([writer.close(1_000), store.close(1_000)]);
  });
});
