import assert from 'node:assert/strict';
import type { OutboxRow } from '../../../src/outbox/outbox-row.ts';
import type { Relay } from '../../../src/outbox/relay/relay.ts';
import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../../src/publish/broker.ts';
import { away } from '../../publish/fake-cluster.ts';
import { createMemoryOutboxStore } from '../memory-outbox-store.ts';
import { onFakeTime } from './fake-time.ts';
import { duplicates, inversions, relayOver, rowOf, seededRandom } from './relay-under-test.ts';

const lost: SendFailure = { kind: 'unknown_outcome', cause: 'TimeoutException', message: 'no answer' };
const partitionCount = 6;

/** A cluster that recognizes a batch only if its producer repeats it before any other batch of the partition. */
function createCluster(random: () => number) {
  const stored: BrokerRecord[] = [];
  const down = new Set<number | undefined>();
  const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
  return {
    stored,
    down,
    fall(count: number): void {
      while (down.size < count) down.add(Math.floor(random() * partitionCount));
    },
    /** `slowMs`: how long a slow answer takes. */
    producer(broker: Broker, slowMs: number): Broker {
      const last = new Map<number | undefined, string>();
      async function send(
        partition: number | undefined,
        records: readonly BrokerRecord[],
      ): Promise<SendResult> {
        const wasDown = down.has(partition);
        await sleep(5 + random() * 20);
        if (wasDown) return { ok: false, failure: away };
        const isDown = down.has(partition);
        const ids = records.map(({ headers }) => headers.eventId).join();
        const isStored = !isDown || random() < 0.5;
        if (isStored && last.get(partition) !== ids) stored.push(...records);
        if (isStored) last.set(partition, ids);
        if (random() < 0.02) await sleep(slowMs);
        return isDown ? { ok: false, failure: lost } : { ok: true };
      }
      return { ...broker, send: (_, partition, records) => send(partition, records) };
    },
  };
}

describe('relay: a batch with an unknown outcome', () => {
  let its: ReturnType<typeof onFakeTime>;
  beforeEach(() => {
    its = onFakeTime({ partitions: partitionCount });
  });
  afterEach(() => its.time.restore());

  const outages = [
    { what: 'all partitions are away', count: partitionCount, relays: 1 },
    { what: 'some partitions are away', count: 2, relays: 1 },
    { what: 'all are away, and another relay starts', count: partitionCount, relays: 2 },
    { what: 'some are away, and another relay starts', count: 2, relays: 2 },
    { what: 'one is away for a moment, and the relay stops', count: 1, relays: 1, stops: true },
    {
      what: 'the database is away for longer than a lease',
      count: 0,
      relays: 2,
      isOfDatabase: true,
    },
    { what: 'some are away, and answers come after the time limit', count: 2, relays: 1, slowMs: 3_000 },
  ];
  for (const { what, count, relays, slowMs = 0, stops = false, isOfDatabase = false } of outages) {
    it(`is stored once: ${what}`, async () => {
      for (let round = 1; round <= 10; round++) {
        const random = seededRandom(round);
        const cluster = createCluster(random);
        const store = createMemoryOutboxStore(() => its.time.now);
        let inserted = 0;
        const started: Relay[] = [];
        const start = (): void => {
          const broker = cluster.producer(its.broker, slowMs);
          const relay = relayOver({ store, broker }, { batchSize: 5 + Math.floor(random() * 20) });
          started.push(relay);
          relay.start();
        };
        const nextRow = (): OutboxRow => rowOf(`a${Math.floor(random() * 50)}`, inserted++);
        // Rows with later ids are sent before.
        const commitLater = (id: number): void => void setTimeout(() => store.commit(id), random() * 200);
        const load = async (ms: number): Promise<void> => {
          for (let at = 0; at < ms; at += 5) {
            if (random() < 0.1) commitLater(store.begin(rowOf(`late ${inserted}`, inserted++)));
            const rows = Array.from({ length: Math.floor(random() * 4) }, () => nextRow());
            await store.insert(rows);
            for (const relay of started) relay.wake();
            await its.time.tickAsync(5);
          }
        };
        start();
        await load(500);
        for (let outage = 0; outage < 3; outage++) {
          cluster.fall(count);
          if (isOfDatabase) store.failing = 'away';
          else await load(random() * (stops ? 100 : 3_000));
          while (started.length < relays) start();
          if (!stops) await its.time.tickAsync(random() * 90_000);
          cluster.down.clear();
          store.failing = undefined;
          if (stops) {
            const stopped = started.pop()?.stop(10_000);
            await its.time.tickAsync(10_000);
            assert.equal(await stopped, true);
            start();
          }
          await load(500);
        }
        await its.time.tickAsync(200_000);
        const stored = new Set(cluster.stored.map(({ headers }) => headers.eventId));
        assert.equal(stored.size, store.table.rows.size, `round ${round}`);
        assert.equal(duplicates(cluster.stored), 0, `round ${round}`);
        assert.equal(inversions(cluster.stored), 0, `round ${round}`);
        for (const relay of started) void relay.stop(1_000);
        await its.time.tickAsync(2_000);
      }
    });
  }
});
