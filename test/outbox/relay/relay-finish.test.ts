import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { createMemoryOutboxStore, createTable } from '../memory-outbox-store.ts';
import { createFakeBroker, relayOver, rowOf, until } from './relay-under-test.ts';

const real = (): number => performance.now();

describe('relay: finish', function () {
  this.timeout(10_000);
  // Longer than a test may take: nothing is found by a look that comes of itself.
  const settings = { pollIntervalMs: 60_000 };

  it('sends what is committed when it has only just begun, and gives its shards back', async () => {
    const table = createTable();
    const [store, broker] = [createMemoryOutboxStore(real, table), createFakeBroker(real)];
    const row = rowOf('a', 1);
    await store.insert([row]);
    const relay = relayOver({ store, broker }, settings);
    relay.start();
    assert.equal(await relay.finish(5_000), true);
    assert.equal(store.statusOf(row.eventId), 'PUBLISHED');
    assert.deepEqual([table.leases.size, table.owners.size], [0, 0]);
  });

  it('sends what is committed after its last look, many pages of it, and a row that was passed over too', async () => {
    const table = createTable();
    const [store, broker] = [createMemoryOutboxStore(real, table), createFakeBroker(real)];
    const relay = relayOver({ store, broker }, { ...settings, batchSize: 10, dynamicBatching: false });
    const late = rowOf('late', 1);
    const id = store.begin(late);
    await store.insert([rowOf('a', 1)]);
    relay.start();
    await until(() => broker.stored.length === 1);
    store.commit(id);
    await store.insert(Array.from({ length: 95 }, (_, at) => rowOf('b', at)));
    assert.equal(await relay.finish(5_000), true);
    assert.equal(broker.stored.length, 97);
    assert.equal(store.statusOf(late.eventId), 'PUBLISHED');
  });

  it('with nothing to send it is over at once', async () => {
    const store = createMemoryOutboxStore(real);
    const relay = relayOver({ store, broker: createFakeBroker(real) }, settings);
    relay.start();
    await until(() => (store.calls.get('pending') ?? 0) > 0);
    const startMs = real();
    assert.equal(await relay.finish(5_000), true);
    assert.ok(real() - startMs < 50, `${real() - startMs} ms`);
  });

  it('says so where the database fails, at once', async () => {
    const store = createMemoryOutboxStore(real);
    const relay = relayOver({ store, broker: createFakeBroker(real) }, settings);
    store.failing = 'away';
    relay.start();
    const startMs = real();
    assert.equal(await relay.finish(3_000), false);
    assert.ok(real() - startMs < 2_000, `${real() - startMs} ms`);
  });

  it('ends with its deadline where the broker hangs, and keeps its shards', async () => {
    const table = createTable();
    const [store, broker] = [createMemoryOutboxStore(real, table), createFakeBroker(real)];
    broker.reply = () => new Promise(() => {});
    await store.insert([rowOf('a', 1)]);
    const relay = relayOver({ store, broker }, settings);
    relay.start();
    const startMs = real();
    assert.equal(await relay.finish(400), false);
    assert.ok(real() - startMs < 800, `${real() - startMs} ms`);
    assert.equal(table.leases.size, 64);
  });

  it('waits for nothing where others have all shards', async () => {
    const table = createTable();
    const store = createMemoryOutboxStore(real, table);
    for (let shard = 0; shard < 64; shard++)
      table.leases.set(shard, { owner: 'another', untilMs: real() + 60_000 });
    table.owners.set('another', real() + 60_000);
    const relay = relayOver({ store, broker: createFakeBroker(real) }, settings);
    relay.start();
    assert.equal(await relay.finish(5_000), true);
  });

  it('asks the database for nothing any more, though it could not say what was sent', async () => {
    const store = createMemoryOutboxStore(real);
    const broker = createFakeBroker(real);
    await store.insert([rowOf('a', 1)]);
    const relay = relayOver({ store, broker }, settings);
    broker.reply = async () => {
      store.failing = 'away';
      return undefined;
    };
    relay.start();
    await until(() => (store.calls.get('ack') ?? 0) > 0);
    assert.equal(await relay.stop(100), false);
    const calls = [...store.calls.values()].reduce((sum, count) => sum + count, 0);
    // Longer than the first pause behind a failure.
    await sleep(700);
    assert.equal(
      [...store.calls.values()].reduce((sum, count) => sum + count, 0),
      calls,
    );
  });
});
