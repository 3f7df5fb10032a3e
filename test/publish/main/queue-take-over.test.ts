import assert from 'node:assert/strict';
import { event, fakeCluster, forbidden, queueOver } from '../fake-cluster.ts';

describe('queue: an event that fails in the turn in which the process exits', () => {
  for (let ticks = 0; ticks < 10; ticks++) {
    it(`is handed out or with the next tier, ${ticks} steps after the answer of the cluster`, async () => {
      const { broker, sends } = fakeCluster();
      const { queue, failed } = queueOver(broker);
      void queue.publish(event('1'));
      await new Promise(setImmediate);
      await new Promise(setImmediate);
      sends[0]?.answer({ ok: false, failure: forbidden });
      for (let tick = 0; tick < ticks; tick++) await null;
      const stored = [...failed];
      const left = queue.takeOver(() => true);
      assert.deepEqual(
        [...stored, ...left].map(({ event: one, attempts }) => [one.eventId, attempts]),
        [['1', 1]],
      );
      await new Promise(setImmediate);
      assert.deepEqual(failed, stored, 'nothing of it comes twice');
    });
  }
});
