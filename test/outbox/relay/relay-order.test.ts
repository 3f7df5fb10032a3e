import assert from 'node:assert/strict';
import { createMemoryOutboxStore, createTable } from '../memory-outbox-store.ts';
import { createFakeBroker, duplicates, inversions, relayOver, rowOf, until } from './relay-under-test.ts';

const real = (): number => performance.now();
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('relay: order', () => {
  it('sends 5000 rows of 50 aggregates by two relays without an inversion or a duplicate', async function () {
    this.timeout(30_000);
    const table = createTable();
    const broker = createFakeBroker(real, 6);
    broker.reply = async () => {
      await pause(Math.random() * 12);
      return undefined;
    };
    const first = createMemoryOutboxStore(real, table);
    const second = createMemoryOutboxStore(real, table);
    const settings = { leaseMs: 400, sendTimeoutMs: 100, batchSize: 40 };
    const relays = [first, second].map((store) => relayOver({ store, broker }, settings));
    relays[0]?.start();
    for (let row = 0; row < 5_000; row++) {
      await first.insert([rowOf(`a${row % 50}`, row)]);
      if (row % 10 === 0) {
        relays[row % 2]?.wake();
        await pause(2);
      }
      if (row === 1_500) relays[1]?.start();
    }
    await until(() => new Set(broker.stored.map(({ headers }) => headers.eventId)).size === 5_000, 20_000);
    await until(() => [...table.rows.values()].every(({ status }) => status === 'PUBLISHED'));
    await Promise.all(relays.map((relay) => relay.stop(2_000)));
    const published = relays.map((relay) => relay.state().processed.published);
    assert.ok(
      published.every((count) => count > 0),
      `sent by ${published}`,
    );
    assert.deepEqual(
      {
        inversions: inversions(broker.stored),
        duplicates: duplicates(broker.stored),
        atOnce: table.leases.size,
      },
      { inversions: 0, duplicates: 0, atOnce: 0 },
    );
  });
});
