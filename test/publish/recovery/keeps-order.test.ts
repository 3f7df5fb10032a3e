import assert from 'node:assert/strict';
import type { SendFailure } from '../../../src/publish/broker.ts';
import { recover } from '../../../src/publish/recovery/recover.ts';
import type { RecoverySource, StoredEvent } from '../../../src/publish/recovery-source.ts';
import { away, forbidden } from '../fake-cluster.ts';

const stored = (id: number): StoredEvent => ({
  ...{ place: String(id), eventId: String(id), eventType: 'T', topic: 'orders', key: String(id % 2) },
  ...{ headers: {}, value: Buffer.from(String(id)), storedAt: 0, reason: undefined },
});

async function run(
  count: number,
  failures: (id: number) => SendFailure | undefined,
  rest: Partial<Parameters<typeof recover>[0]> = {},
) {
  const done: number[] = [];
  const heldUp: number[] = [];
  const source: RecoverySource = {
    name: 'fake',
    async open() {},
    count: async () => count,
    async *read(size) {
      for (let at = 0; at < count; at += size)
        yield {
          events: Array.from({ length: Math.min(size, count - at) }, (_, n) => stored(at + n)),
          unreadable: [],
        };
    },
    async done(events) {
      done.push(...events.map(({ eventId }) => Number(eventId)));
    },
    async close() {},
  };
  let inFlight = 0;
  let maxInFlight = 0;
  const report = await recover({
    source,
    async send(_topic, _partition, records) {
      maxInFlight = Math.max(maxInFlight, ++inFlight);
      await null;
      inFlight--;
      const failure = records.map(({ value }) => failures(Number(value))).find((one) => one !== undefined);
      return failure === undefined ? { ok: true } : { ok: false, failure };
    },
    partitionsFor: async () => 2,
    partitionOf: (key) => Number(key),
    accept: ({ eventId }) => !heldUp.some((id) => id % 2 === Number(eventId) % 2),
    onHeldUp: ({ eventId }) => void heldUp.push(Number(eventId)),
    ...{ keepsOrder: true, ratePerSecond: 0, retryWaitsMs: [], dryRun: false },
    ...{ sleep: async () => {}, isStopped: () => false },
    ...rest,
  });
  return { report, done, heldUp, maxInFlight };
}

describe('recovery that keeps the order', () => {
  it('sends to partitions side by side, and one batch after the other to each', async () => {
    const { done, maxInFlight } = await run(3_000, () => undefined);
    assert.deepEqual([done.length, maxInFlight], [3_000, 2]);
  });

  it('a partition that fails is held up from there on, the other one is sent', async () => {
    for (const failure of [away, forbidden]) {
      const { report, done, heldUp } = await run(3_000, (id) => (id === 1_501 ? failure : undefined));
      assert.equal(report.stoppedBy, undefined);
      assert.deepEqual(
        done.filter((id) => id % 2 === 1 && id > 1_000),
        [],
      );
      assert.equal(done.filter((id) => id % 2 === 0).length, 1_500);
      assert.ok(heldUp.includes(1_501));
    }
  });

  it('ends where nothing gets through any more', async () => {
    const { report, done } = await run(6_000, (id) => (id >= 2_000 ? away : undefined));
    assert.deepEqual([report.stoppedBy, done.length], [away, 2_000]);
  });

  it('an event that is no valid record stays, and holds up nothing', async () => {
    const invalid = { ...forbidden, cause: 'INVALID_RECORD' };
    const { report, done, heldUp } = await run(40, (id) => (id === 7 ? invalid : undefined));
    assert.deepEqual([report.failed, done.length, heldUp], [1, 39, []]);
  });

  it('a partition that fails once is left alone for the rest of the run: nothing later overtakes, the others go on', async () => {
    let isFirst = true;
    const failsOnce = (id: number): SendFailure | undefined => {
      if (id % 2 !== 0 || !isFirst) return undefined;
      isFirst = false;
      return away;
    };
    const { done, report } = await run(3_000, failsOnce, { accept: () => true });
    assert.deepEqual([done.length, done.some((id) => id % 2 === 0)], [1_500, false]);
    assert.deepEqual([report.failed, report.stoppedBy], [1_500, undefined]);
  });
});
