import assert from 'node:assert/strict';
import type { SendFailure } from '../../../src/publish/broker.ts';
import { away } from '../../publish/fake-cluster.ts';
import { onFakeTime } from './fake-time.ts';
import { inversions, rowOf, type SentBatch, seededRandom } from './relay-under-test.ts';

const lost: SendFailure = { kind: 'unknown_outcome', cause: 'TimeoutException', message: 'no answer' };

/** A broker recognizes only a batch that is repeated before any other of its partition. */
function notRepeated(sends: readonly SentBatch[]): string[] {
  const open = new Map<number | undefined, string>();
  return sends.flatMap(({ partition, ids, failure }) => {
    const before = open.get(partition);
    const batch = ids.join();
    if (failure === lost) open.set(partition, batch);
    else if (failure === undefined || batch !== before) open.delete(partition);
    return before !== undefined && before !== batch ? [`${before}, then ${batch}`] : [];
  });
}

describe('relay: a batch with an unknown outcome', () => {
  let its: ReturnType<typeof onFakeTime>;
  beforeEach(() => {
    its = onFakeTime({ partitions: 6 });
  });
  afterEach(() => its.time.restore());

  for (let round = 1; round <= 5; round++) {
    it(`is repeated before anything else of its partition, also after an outage (${round})`, async () => {
      const random = seededRandom(round);
      let inserted = 0;
      let state: 'up' | 'away' = 'up';
      its.broker.reply = async () => {
        const before = state;
        await new Promise((resolve) => setTimeout(resolve, 5 + random() * 20));
        if (before === 'away') return away;
        return state === 'up' ? undefined : lost;
      };
      const relay = its.relay();
      relay.start();
      // Rows with later ids are sent before.
      const commitLater = (id: number): void => void setTimeout(() => its.store.commit(id), random() * 200);
      const load = async (ms: number): Promise<void> => {
        for (let at = 0; at < ms; at += 5) {
          if (random() < 0.1) commitLater(its.store.begin(rowOf(`late ${inserted}`, inserted++)));
          else await its.insert(rowOf(`a${Math.floor(random() * 50)}`, inserted++));
          relay.wake();
          await its.time.tickAsync(5);
        }
      };
      await load(500);
      state = 'away';
      await load(2_000);
      await its.time.tickAsync(90_000);
      state = 'up';
      await load(500);
      await its.time.tickAsync(120_000);
      const stored = new Set(its.broker.stored.map(({ headers }) => headers.eventId));
      assert.equal(stored.size, inserted);
      assert.equal(inversions(its.broker.stored), 0);
      assert.deepEqual(notRepeated(its.broker.sends), []);
    });
  }
});
