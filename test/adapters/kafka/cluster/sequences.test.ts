import assert from 'node:assert/strict';
import {
  type BatchPlace,
  createSequences,
  type Tried,
  verdictOf,
} from '../../../../src/adapters/kafka/session.ts';
import type { BrokerRecord } from '../../../../src/publish/broker.ts';
import { ModelPartition, type ModelRequest } from './model-broker.ts';

/** `SVC_SEQUENCE_RUNS=100000` for a long look. */
const runs = Number(process.env.SVC_SEQUENCE_RUNS ?? 1_000);

type Result = { readonly error?: string };

const recordsOf = (events: readonly number[]): BrokerRecord[] =>
  events.map((event) => ({ key: null, value: Buffer.from(String(event)), headers: {}, timestamp: 0 }));

describe('the numbers of batches, against a model of the broker', () => {
  it(`there is no duplicate, no gap and no inversion in ${runs} runs of lost answers, late requests, moved leaders, splits and expiry`, async () => {
    const first = Number(process.env.SVC_SEQUENCE_SEED ?? Math.floor(Math.random() * 2 ** 30));
    const seen = { retried: 0, split: 0, late: 0, moved: 0, gaveUp: 0, expired: 0 };
    for (let seed = first; seed < first + runs; seed++) {
      const { stored, logs } = await run(seed, seen);
      for (const [index, log] of logs.entries()) {
        const events = log.flatMap((batch) => batch.events);
        for (const [at, event] of events.entries())
          assert.ok(
            at === 0 || event > (events[at - 1] as number),
            `seed ${seed}: ${event} is twice, or late`,
          );
        const all = new Set(events);
        for (const event of stored[index] as number[])
          assert.ok(all.has(event), `seed ${seed}: ${event} was acknowledged, and is not there`);
      }
    }
    if (runs >= 1_000) for (const [what, count] of Object.entries(seen)) assert.ok(count > 0, what);
  });

  it('the number of a record goes from its greatest to 0, and the epoch to another producer', async () => {
    const places: (BatchPlace | undefined)[] = [];
    let ids = 0;
    const sequences = createSequences(async () => ({ id: BigInt(++ids), epoch: 32_766 }));
    const send = (count: number, verdict: Tried<undefined>['verdict'], one = recordsOf([1])) =>
      sequences.send('t', 0, Object.assign(one.slice(), { length: count }), async (place) => {
        places.push(place);
        return { verdict, result: undefined };
      });
    const max = 2 ** 30;
    await send(max, 'stored');
    await send(max - 1, 'stored');
    await send(2, 'stored');
    await send(1, 'maybe');
    await send(1, 'maybe');
    await send(1, 'maybe');
    assert.deepEqual(
      places.map((place) => [place?.producerId, place?.epoch, place?.sequence]),
      [
        [1n, 32_766, 0],
        [1n, 32_766, max],
        [1n, 32_766, 2 ** 31 - 1],
        [1n, 32_766, 1],
        [1n, 32_767, 0],
        [2n, 32_766, 0],
      ],
    );
  });

  it('a partition that is not remembered any more begins another epoch, and so does one that was not seen yet', async () => {
    const epochs: (number | undefined)[] = [];
    const sequences = createSequences(async () => ({ id: 1n, epoch: 0 }), 1);
    for (const topic of ['a', 'b', 'a', 'c'])
      await sequences.send(topic, 0, recordsOf([1]), async (place) => {
        epochs.push(place?.epoch);
        return { verdict: 'stored', result: undefined };
      });
    assert.deepEqual(epochs, [0, 1, 2, 3]);
  });

  it('without a producer id batches have no numbers; one that cannot be had now is asked for again', async () => {
    let answer: (() => Promise<undefined>) | undefined = () => Promise.reject(new Error('away'));
    const sequences = createSequences(() => (answer as () => Promise<undefined>)());
    const places: (BatchPlace | undefined)[] = [];
    const send = () =>
      sequences.send('t', 0, recordsOf([1]), async (place) => {
        places.push(place);
        return { verdict: 'stored', result: 'ok' };
      });
    await assert.rejects(send(), /away/);
    answer = async () => undefined;
    assert.equal(await send(), 'ok');
    answer = undefined;
    assert.equal(await send(), 'ok');
    assert.deepEqual(places, [undefined, undefined]);
  });

  it('a topic that takes no producer with an id gets the batch without', async () => {
    const sequences = createSequences(async () => ({ id: 1n, epoch: 0 }));
    const tried: boolean[] = [];
    for (let time = 0; time < 2; time++)
      await sequences.send('t', 0, recordsOf([1]), async (place) => {
        tried.push(place !== undefined);
        return { verdict: place === undefined ? 'stored' : 'unplaced', result: undefined };
      });
    assert.deepEqual(tried, [true, false, false]);
  });
});

/** A queue of a few partitions that sends, and a broker that does all that brokers do. */
async function run(seed: number, seen: Record<string, number>) {
  const random = mulberry(seed);
  const chance = (share: number): boolean => random() < share;
  const below = (max: number): number => Math.floor(random() * max);
  const isOld = chance(0.3);
  const partitions = Array.from({ length: 1 + below(3) }, () => new ModelPartition(isOld));
  let tooMany = chance(0.3) ? 2 + below(4) : 100;
  let ids = 0;
  const newProducer = async () => {
    if (chance(0.1)) throw new Error('away');
    return { id: BigInt(++ids), epoch: below(3) };
  };
  const sequences = createSequences(newProducer, chance(0.3) ? 1 : 100);
  const stored: number[][] = partitions.map(() => []);
  const troubles = random() * 0.7;

  await Promise.all(
    partitions.map(async (partition, number) => {
      let late: ModelRequest[] = [];
      let nextEvent = 0;
      /** Some that were on their way all the time arrive now, or never. */
      const arrive = (share: number): void => {
        late = late.filter((request) => {
          if (!chance(share)) return true;
          if (chance(0.7)) partition.append(request);
          return false;
        });
      };
      const attempt =
        (events: readonly number[]) =>
        async (place: BatchPlace | undefined): Promise<Tried<Result>> => {
          assert.ok(place);
          const tried = (error: string | undefined, written = true): Tried<Result> => {
            const verdict = verdictOf(error, written);
            return { verdict, result: verdict === 'stored' ? {} : { error: error ?? 'no answer' } };
          };
          const request = { place, events };
          arrive(0.2);
          if (chance(troubles * 0.2)) {
            seen.moved = (seen.moved ?? 0) + 1;
            partition.changeLeader(below(3));
          }
          if (chance(troubles)) {
            switch (below(5)) {
              case 0:
                return tried(undefined, false);
              case 1:
                return tried('NOT_ENOUGH_REPLICAS');
              case 2:
                seen.late = (seen.late ?? 0) + 1;
                late.push(request);
                return tried(undefined);
              case 3:
                if (events.length <= tooMany) partition.append(request);
                partition.changeLeader(below(2));
                return tried('NOT_LEADER_OR_FOLLOWER');
              default:
                if (events.length <= tooMany) partition.append(request);
                return tried(chance(0.5) ? undefined : 'REQUEST_TIMED_OUT');
            }
          }
          if (events.length > tooMany) return tried('MESSAGE_TOO_LARGE');
          const error = partition.append(request);
          if (error !== undefined) return tried(error);
          partition.acked();
          return chance(0.1) ? tried('DUPLICATE_SEQUENCE_NUMBER') : { verdict: 'stored', result: {} };
        };

      async function send(events: readonly number[]): Promise<void> {
        const records = recordsOf(events);
        let maybeStored = false;
        for (let tries = 1; ; tries++) {
          let error: string | undefined;
          try {
            ({ error } = await sequences.send('t', number, records, attempt(events)));
          } catch {
            error = 'no producer id';
          }
          if (error === undefined) {
            stored[number]?.push(...events);
            return;
          }
          const isUnknown = ['no answer', 'NOT_LEADER_OR_FOLLOWER', 'REQUEST_TIMED_OUT'].includes(error);
          maybeStored ||= isUnknown;
          if (error === 'MESSAGE_TOO_LARGE') {
            if (maybeStored || events.length === 1) return;
            seen.split = (seen.split ?? 0) + 1;
            const middle = Math.ceil(events.length / 2);
            await send(events.slice(0, middle));
            return send(events.slice(middle));
          }
          if (tries === 6 || chance(0.05)) {
            seen.gaveUp = (seen.gaveUp ?? 0) + 1;
            return;
          }
          seen.retried = (seen.retried ?? 0) + 1;
        }
      }

      for (let batch = 0; batch < 12; batch++) {
        const events = Array.from({ length: 1 + below(6) }, () => nextEvent++);
        await send(events);
        if (chance(0.05)) tooMany = 2 + below(5);
        if (chance(0.1) && late.length === 0 && stored[number]?.includes(nextEvent - 1)) {
          seen.expired = (seen.expired ?? 0) + 1;
          partition.expire();
        }
      }
      arrive(1);
    }),
  );
  return { stored, logs: partitions.map(({ log }) => log) };
}

function mulberry(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
