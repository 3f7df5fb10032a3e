import assert from 'node:assert/strict';
import { forbidden } from '../../publish/fake-cluster.ts';
import { onFakeTime } from './fake-time.ts';
import { rowOf } from './relay-under-test.ts';

describe('relay: pauses', () => {
  let its: ReturnType<typeof onFakeTime>;
  let isForbidden: boolean;
  beforeEach(() => {
    its = onFakeTime({ partitions: 1 });
    isForbidden = true;
    its.broker.reply = () => (isForbidden ? forbidden : undefined);
  });
  afterEach(() => its.time.restore());

  it('doubles the pause of a topic up to a minute, and begins anew after a success', async () => {
    await its.insert(rowOf('a', 1));
    const relay = its.relay({ circuitBreaker: false });
    relay.start();
    await its.time.tickAsync(194_999);
    isForbidden = false;
    await its.time.tickAsync(1);
    isForbidden = true;
    await its.insert(rowOf('a', 2));
    relay.wake();
    await its.time.tickAsync(20_000);
    const at = its.broker.sends.map(({ atMs }) => atMs);
    const again = at[7] ?? 0;
    assert.deepEqual(at.slice(0, 7), [0, 5_000, 15_000, 35_000, 75_000, 135_000, 195_000]);
    assert.deepEqual(at.slice(8), [again + 5_000, again + 15_000]);
    assert.deepEqual(its.said(), [
      'warn outbox: the events for topic "orders" wait in their table: may not write',
      'info outbox: topic "orders" takes events again',
      'warn outbox: the events for topic "orders" wait in their table: may not write',
    ]);
    await relay.stop(1_000);
  });

  it('lets nothing through in the middle of a pass, which has left out earlier rows', async () => {
    const { pending } = its.store;
    its.store.pending = async (shards, seen, limit) => {
      const isSecondPage = seen.ids.length > 0;
      if (isSecondPage && its.time.now >= 4_000 && its.time.now < 5_000)
        await new Promise((resolve) => setTimeout(resolve, 1_500));
      return pending(shards, seen, limit);
    };
    await its.insert(rowOf('a', 1), rowOf('a', 2), rowOf('a', 3));
    const relay = its.relay({ batchSize: 2, dynamicBatching: false });
    relay.start();
    await its.time.tickAsync(4_999);
    isForbidden = false;
    await its.time.tickAsync(5_000);
    assert.deepEqual(
      its.broker.stored.map(({ headers }) => headers.seq),
      ['1', '2', '3'],
    );
    await relay.stop(1_000);
  });
});
