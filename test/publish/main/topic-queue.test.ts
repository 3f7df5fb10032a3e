import assert from 'node:assert/strict';
import type { SendFailure } from '../../../src/publish/broker.ts';
import type { PartitionCounts } from '../../../src/publish/main/cluster-state.ts';
import { type BatchSender, createTopicQueue, QueuedEvent } from '../../../src/publish/main/queue.ts';
import { event } from '../fake-cluster.ts';

describe('the queue of a topic', () => {
  for (const [what, count] of [
    ['is not known', undefined],
    ['is known', 3],
  ] as const) {
    it(`is idle when its events ended before the number of its partitions ${what}`, async () => {
      let answer = (_: number | undefined): void => {};
      const counts: PartitionCounts = {
        known: () => undefined,
        ask: () =>
          new Promise((resolve) => {
            answer = resolve;
          }),
      };
      const sender = {
        outside: (work: () => void) => work(),
        explain: (_: string, reason: SendFailure) => reason,
        heldUntilMs: () => Number.NEGATIVE_INFINITY,
        order: { isGuarding: false },
      } as unknown as BatchSender;
      const outcomes = { settle: (one: QueuedEvent) => one.silenced(), free() {} };
      let idle = 0;
      const batch = { maxEvents: 10, maxBytes: 1_000, lingerMs: 5 };
      const onIdle = (): void => void idle++;
      const topic = createTopicQueue({ topic: 'main', batch, counts, sender, outcomes, onIdle });
      topic.push(
        new QueuedEvent(event('1'), 'main', 100, { atMs: 0, deliveryTimeoutMs: 1_000, isProbe: false }),
      );
      assert.equal(topic.expire(1_000, 1_000), undefined);
      assert.deepEqual([topic.isIdle(), idle], [false, 0], 'the answer is to come');
      answer(count);
      await new Promise(setImmediate);
      assert.deepEqual([topic.isIdle(), idle], [true, 1]);
    });
  }
});
