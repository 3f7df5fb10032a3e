import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Outcome } from '../../../src/observe/outcomes.ts';
import { partitionOfKey } from '../../../src/publish/broker.ts';
import { defaultBreaker } from '../../../src/publish/main/cluster-state.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import {
  away,
  event,
  fakeCluster,
  forbidden,
  noAnswer,
  patientBreaker,
  queueOver,
  tooLarge,
} from '../fake-cluster.ts';

/** How one send goes: what the client says, whether the broker stored the records all the same, and how long it takes. */
const answers = {
  ok: { failure: undefined, stores: true },
  away: { failure: away, stores: false },
  missing: { failure: { ...away, cause: 'UNKNOWN_TOPIC_OR_PARTITION' }, stores: false },
  forbidden: { failure: forbidden, stores: false },
  tooLarge: { failure: tooLarge, stores: false },
  lostAnswer: { failure: noAnswer, stores: true },
  lostRequest: { failure: noAnswer, stores: false },
} as const;
const answer = fc.constantFrom(...Object.values(answers));
const send = fc.record({
  answer: fc.oneof({ weight: 1, arbitrary: fc.constant(answers.ok) }, { weight: 1, arbitrary: answer }),
  tookMs: fc.constantFrom(0, 1, 3, 400, 2_500),
});
const step = fc.record({ key: fc.nat(2), pauseMs: fc.constantFrom(0, 0, 0, 0, 0, 0, 1, 7, 900, 4_000) });
const scenario = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: 80, size: 'max' }),
  sends: fc.array(send, { maxLength: 60, size: 'max' }),
  partitions: fc.constantFrom(1, 3, 'unknown' as const),
  maxEvents: fc.constantFrom(1, 3, 500),
  bufferEvents: fc.constantFrom(5, 10_000),
  deliveryTimeoutMs: fc.constantFrom(3_000, 30_000),
  closesAfterMs: fc.constantFrom(0, 100, 60_000),
  withBreaker: fc.boolean(),
});

describe('queue under random failures', () => {
  const clock = clockOfEach({ now: 1_700_000_000_000 });

  it('gives each event exactly one outcome, keeps the order per key, and loses nothing', async () => {
    await fc.assert(
      fc.asyncProperty(scenario, async (given) => {
        const { broker, sends, partitions } = fakeCluster(given.partitions);
        const stored: { key: string; id: string }[] = [];
        const inFlight = new Set<number | undefined>();
        let at = 0;
        const { queue, failed } = queueOver(
          {
            ...broker,
            async send(topic, partition, records) {
              assert.ok(!inFlight.has(partition), 'two sends at once to one partition');
              inFlight.add(partition);
              const how = given.sends[at++] ?? { answer: answers.ok, tookMs: 1 };
              void broker.send(topic, partition, records);
              // Whatever comes of it, the topic may be made meanwhile, whose partitions are then known.
              if (partition === undefined && at % 2 === 0) partitions.current = 2;
              await new Promise((resolve) => setTimeout(resolve, how.tookMs));
              inFlight.delete(partition);
              if (how.answer.stores)
                for (const { key, headers } of records)
                  stored.push({ key: key as string, id: headers.eventId as string });
              const { failure } = how.answer;
              return failure === undefined ? { ok: true } : { ok: false, failure };
            },
          },
          {
            batch: { maxEvents: given.maxEvents, maxBytes: 900_000, lingerMs: 5 },
            buffer: { maxEvents: given.bufferEvents, maxBytes: 1_000_000 },
            deliveryTimeoutMs: given.deliveryTimeoutMs,
            breaker: given.withBreaker ? defaultBreaker : patientBreaker,
          },
        );
        const outcomes = new Map<string, Outcome[]>();
        const publish = (id: string, key: string) => {
          outcomes.set(id, []);
          void queue.publish(event(id, { key })).then((outcome) => outcomes.get(id)?.push(outcome));
        };
        for (const [id, { key, pauseMs }] of given.steps.entries()) {
          publish(String(id), `key-${key}`);
          if (pauseMs > 0) await clock.tickAsync(pauseMs);
        }
        await clock.tickAsync(given.closesAfterMs);
        const closed = queue.close(5_000);
        await clock.tickAsync(70_000);
        await closed;

        const notPublished = failed.map(({ event: one }) => one.eventId);
        assert.equal(new Set(notPublished).size, notPublished.length, 'an event came twice to the next tier');
        const ids = new Set(stored.map(({ id }) => id));
        for (const [id, [outcome, ...more]] of outcomes) {
          assert.deepEqual(more, [], 'more than one outcome');
          assert.equal(outcome, notPublished.includes(id) ? 'dlq' : 'published');
          if (outcome === 'published') assert.ok(ids.has(id), `${id} is called published and is not stored`);
        }
        assert.deepEqual(queue.state().events, 0);
        assert.deepEqual(queue.state().bytes, 0);

        // First appearances: a retry after a lost answer may store a batch again, as a whole and in its order.
        const firsts = new Map<string, number[]>();
        for (const { key, id } of stored) {
          const seen = firsts.get(key) ?? [];
          if (!seen.includes(Number(id))) seen.push(Number(id));
          firsts.set(key, seen);
        }
        for (const [key, seen] of firsts) {
          const sorted = seen.toSorted((one, other) => one - other);
          assert.deepEqual(seen, sorted, `order of ${key}`);
        }
        for (const { partition, records } of sends) {
          if (partition === undefined) assert.equal(records.length, 1);
          else
            for (const { key } of records)
              assert.equal(partitionOfKey(key as string, partitions.current as number), partition);
          assert.ok(records.length <= given.maxEvents);
        }
      }),
      { numRuns: 500 },
    );
  }).timeout(60_000);
});
