import assert from 'node:assert/strict';
import { type Broker, partitionOf, partitionOfKey, type SendResult } from '../../../src/publish/broker.ts';
import { createBackupOrder } from '../../../src/publish/order/backup-order.ts';
import { createBackupTier, createDlqTier, createTierChain } from '../../../src/publish/tiers/tiers.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { away, event, fakeCluster, queueOver, tooLarge } from '../fake-cluster.ts';

/**
 * The queue, the dead letter topic and the backup as a process has them. The main topic is answered by hand, the other at
 * once: it takes all events but one.
 */
function processWith({ room = 10_000, refused = '' } = {}) {
  const { broker, sends } = fakeCluster();
  const withDlq: Broker = {
    ...broker,
    async send(topic, partition, records): Promise<SendResult> {
      if (topic !== 'dead') return broker.send(topic, partition, records);
      const isRefused = records.some(({ headers }) => headers.eventId === refused);
      return isRefused ? { ok: false, failure: tooLarge } : { ok: true };
    },
  };
  const order = createBackupOrder({ partitionOfKey });
  order.earlierRun({ topics: new Set() });
  const local = { name: 'local', store: async () => {} };
  const ended: Record<string, string> = {};
  const chain = createTierChain({
    tiers: [
      createDlqTier({
        ...{ broker: withDlq, topic: 'dead', format: 'operations', partitionOf },
        ...{ leastTimeMs: 1_000, cluster: { isAway: false }, onSendFailed() {} },
      }),
      createBackupTier({
        ...{ strategies: () => [local], drained: local, onDrainable: order.stored },
      }),
    ],
    onKept() {},
    onDlqFailed() {},
    onLost() {},
  });
  const { queue } = queueOver(withDlq, {
    ...{ order, next: chain.next, buffer: { maxEvents: room, maxBytes: 1_000_000 } },
  });
  const publish = (id: string): void =>
    void queue.publish(event(id, { key: 'k' })).then((outcome) => {
      ended[id] = outcome;
    });
  return { queue, sends, ended, publish };
}

describe('events of one key that leave the queue together end in one place', () => {
  const time = clockOfEach({ now: 1_700_000_000_000 });

  for (const [what, failsFirst] of [
    ['in flight', false],
    ['waiting for its retry', true],
  ] as const)
    it(`at the end of the process: one ${what}, and the one behind it`, async () => {
      const { queue, sends, ended, publish } = processWith();
      publish('1');
      await time.tickAsync(10);
      if (failsFirst) sends[0]?.answer({ ok: false, failure: away });
      publish('2');
      await time.tickAsync(10);
      const finishing = queue.finish(1_000);
      await time.tickAsync(1_000);
      assert.equal(await finishing, true);
      assert.deepEqual(ended, { 1: 'backup', 2: 'backup' });
    });

  for (const [what, failsFirst] of [
    ['in flight', false],
    ['waiting for its retry', true],
  ] as const)
    it(`where a later one of the partition is in the backup: one ${what}`, async () => {
      // There is no room for the second one in memory.
      const { sends, ended, publish } = processWith({ room: 1, refused: '2' });
      publish('1');
      await time.tickAsync(10);
      if (failsFirst) sends[0]?.answer({ ok: false, failure: away });
      await time.tickAsync(10);
      publish('2');
      await time.tickAsync(10);
      if (!failsFirst) sends[0]?.answer({ ok: false, failure: away });
      await time.tickAsync(10);
      assert.deepEqual(ended, { 1: 'backup', 2: 'backup' });
    });
});
