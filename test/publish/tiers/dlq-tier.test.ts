import assert from 'node:assert/strict';
import type { BrokerRecord, SendFailure, SendResult } from '../../../src/publish/broker.ts';
import { createDlqTier, type DlqOptions } from '../../../src/publish/tiers/tiers.ts';
import { clockOfEach, clockOfGlobals, useClock } from '../../support/fake-time.ts';
import { useLogger } from '../../support/log.ts';
import { away, failedEvent } from '../failed-event.ts';

interface Sent {
  readonly topic: string;
  readonly partition: number | undefined;
  readonly ids: string[];
}

function tierOver(answer: (sent: Sent) => SendFailure | undefined, options: Partial<DlqOptions> = {}) {
  const sends: Sent[] = [];
  const errors: string[] = [];
  const kinds: string[] = [];
  const time = { nowMs: 0 };
  useClock({ now: () => 1_780_000_001_000, monotonic: () => time.nowMs });
  useLogger({ debug() {}, info() {}, warn() {}, error: (message) => errors.push(message) });
  const tier = createDlqTier({
    leastTimeMs: 1_000,
    broker: {
      partitionsFor: async () => 2,
      send: async (topic, partition, records: readonly BrokerRecord[]): Promise<SendResult> => {
        const sent = {
          topic,
          partition,
          ids: records.map(({ value }) => JSON.parse(value.toString()).eventId),
        };
        sends.push(sent);
        const failure = answer(sent);
        return failure === undefined ? { ok: true } : { ok: false, failure };
      },
    },
    topic: 'dlq',
    format: 'operations',
    partitionOf: (key) => (Number(key?.slice(4)) % 2 === 0 ? 0 : 1),
    cluster: { isAway: false },
    onSendFailed: (kind) => kinds.push(kind),
    ...options,
  });
  const store = (...ids: number[]): Promise<boolean[]> =>
    Promise.all(ids.map((id) => tier.store(failedEvent(String(id)))));
  return { tier, sends, errors, kinds, store, time };
}

describe('dead letter tier', () => {
  it('sends by partition, in order, and says that they are stored', async () => {
    const { store, sends } = tierOver(() => undefined);
    assert.deepEqual(await store(1, 2, 3, 4), [true, true, true, true]);
    assert.deepEqual(sends, [
      { topic: 'dlq', partition: 1, ids: ['1', '3'] },
      { topic: 'dlq', partition: 0, ids: ['2', '4'] },
    ]);
  });

  it('after a failure lets events pass for 5 s, and says so once', async () => {
    let isAway = true;
    const { store, sends, errors, kinds, time } = tierOver(() => (isAway ? away : undefined), {
      partitionOf: () => 0,
    });
    assert.deepEqual(await store(1, 2), [false, false]);
    isAway = false;
    time.nowMs = 4_999;
    assert.deepEqual(await store(3), [false]);
    assert.equal(sends.length, 1);
    time.nowMs = 5_000;
    assert.deepEqual(await store(4), [true]);
    assert.deepEqual(kinds, ['retriable']);
    assert.deepEqual(errors, ['dead letter topic "dlq": cannot reach Kafka']);
  });

  it('asks for the number of partitions again when one is not there: the topic was made anew', async () => {
    let count = 2;
    const unknown: SendFailure = { kind: 'retriable', cause: 'UNKNOWN_PARTITION', message: 'no partition 1' };
    const sends: (number | undefined)[] = [];
    const { store, time } = tierOver(() => undefined, {
      broker: {
        partitionsFor: async () => count,
        async send(_topic, partition = 0) {
          sends.push(partition);
          return partition < count ? { ok: true } : { ok: false, failure: unknown };
        },
      },
      partitionOf: (key, partitions) => Number(key?.slice(4)) % partitions,
    });
    assert.deepEqual(await store(1), [true]);
    count = 1;
    assert.deepEqual(await store(1), [false]);
    time.nowMs = 5_000;
    assert.deepEqual(await store(1), [true]);
    assert.deepEqual(sends, [1, 1, 0]);
  });

  it('is not tried while the cluster is known to be away', async () => {
    const { store, sends } = tierOver(() => undefined, { cluster: { isAway: true } });
    assert.deepEqual(await store(1), [false]);
    assert.equal(sends.length, 0);
  });

  it('tries one that is too large as the event alone, which is smaller', async () => {
    const records: BrokerRecord[] = [];
    const { tier } = tierOver(() => undefined, {
      broker: {
        partitionsFor: async () => 1,
        send: async (_topic, _partition, sent) => {
          records.push(...sent);
          const [{ headers } = assert.fail()] = sent;
          return headers.deadLetterForm === 'value'
            ? { ok: true }
            : { ok: false, failure: { kind: 'too_large', cause: 'MESSAGE_TOO_LARGE', message: 'too large' } };
        },
      },
    });
    const failed = failedEvent('1');
    assert.equal(await tier.store(failed), true);
    assert.deepEqual(records.at(-1)?.value, failed.record.value);
  });

  it('holds 10,000 letters, one more goes to the next tier at once', async () => {
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const { tier } = tierOver(() => undefined, {
      broker: { partitionsFor: () => gate.then(() => 1), send: async () => ({ ok: true }) },
    });
    const first = Array.from({ length: 10_000 }, (_, id) => tier.store(failedEvent(String(id))));
    assert.equal(await tier.store(failedEvent('10000')), false);
    open();
    assert.equal((await Promise.all(first)).every(Boolean), true);
  });

  it('close waits for what is under way', async () => {
    const { tier, store } = tierOver(() => undefined);
    const stored = store(1, 2);
    await tier.close(1_000);
    assert.deepEqual(await stored, [true, true]);
  });

  describe('whose topic does not answer', () => {
    const fake = clockOfEach();
    const hang = (): Promise<never> => new Promise(() => {});

    for (const [deadlineAtMs, limitMs] of [
      [undefined, Number.POSITIVE_INFINITY],
      [1_500, 1_500],
      [1_000, 1_000],
      [999, 1_000],
      [-5, 1_000],
    ] as const) {
      for (const what of ['send', 'partitionsFor'] as const) {
        if (deadlineAtMs === undefined && what === 'partitionsFor') continue;
        it(`tries ${limitMs} ms for an event whose time is over at ${deadlineAtMs} (${what})`, async () => {
          const whole = { partitionsFor: async () => 1, send: async () => ({ ok: true }) as const };
          const { tier, kinds } = tierOver(() => undefined, {
            broker: { ...whole, [what]: hang },
          });
          useClock(clockOfGlobals);
          let answer: boolean | undefined;
          const letter = failedEvent('1', deadlineAtMs === undefined ? {} : { deadlineAtMs });
          void tier.store(letter).then((stored) => (answer = stored));
          await fake.tickAsync(Math.min(limitMs, 100_000) - 1);
          assert.equal(answer, undefined);
          if (deadlineAtMs === undefined) return;
          await fake.tickAsync(2);
          assert.equal(answer, what === 'partitionsFor');
          assert.deepEqual(kinds, what === 'send' ? ['unknown_outcome'] : []);
        });
      }
    }
  });
});
