import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { SendFailure } from '../../../src/publish/broker.ts';
import { createFakeBroker, type FakeBroker, type SentBatch } from '../../outbox/relay/relay-under-test.ts';
import { fakeTime } from '../../support/fake-time.ts';
import { away, noAnswer, tooLarge } from '../fake-cluster.ts';

/** What is handed over: `bad` is a record that the topic never takes. */
export interface Handed {
  readonly id: string;
  readonly key: string;
  readonly bad: boolean;
}

/** How an item has ended. `kept`: where it came from; it is tried again by a later run, if there is one. */
export type End = 'stored' | 'elsewhere' | 'kept';

/** One user of the sender, with nothing but a broker. */
export interface SenderUnderTest {
  /** In this order. Returns at once. */
  send(items: readonly Handed[]): void;
  /** `undefined`: it has none. */
  endOf(id: string): End | undefined;
  close(): Promise<unknown>;
}

export interface SenderTraits {
  readonly make: (broker: FakeBroker, nowMs: () => number) => SenderUnderTest;
  /** Records in one send, at most. */
  readonly maxEvents: number;
  /** What failed without a fault of its own is sent again. Else it ends elsewhere. */
  readonly retries: boolean;
  /** One partition after the other: the first one that fails ends the run. Default: side by side. */
  readonly isInRow?: boolean;
  /** Milliseconds after which an item of a send that hangs has its end; `undefined`: whoever calls sets a limit. */
  readonly limitMs: number | undefined;
}

export const invalid: SendFailure = { kind: 'fatal', cause: 'INVALID_RECORD', message: 'no such record' };

const handed = (count: number, keys = 5, isBad = (_: number) => false): Handed[] =>
  Array.from({ length: count }, (_, n) => ({
    ...{ id: `${n}`.padStart(5, '0'), key: `k${n % keys}`, bad: isBad(n) },
  }));

/** Keys whose records were first stored in another order than they were handed over in. */
function disordered(broker: FakeBroker): string[] {
  const last = new Map<string, string>();
  const seen = new Set<string>();
  const wrong: string[] = [];
  for (const { key, headers } of broker.stored) {
    const { eventId = '' } = headers;
    if (seen.has(eventId)) continue;
    seen.add(eventId);
    if (eventId < (last.get(`${key}`) ?? '')) wrong.push(`${eventId} after ${last.get(`${key}`)}`);
    last.set(`${key}`, eventId);
  }
  return wrong;
}

/** What every user of the sender may rely on, whatever it sends. */
export function senderContract(name: string, traits: SenderTraits): void {
  describe(`sender contract: ${name}`, () => {
    let time: ReturnType<typeof fakeTime>;
    let broker: FakeBroker;
    let under: SenderUnderTest;

    const hand = (items: readonly Handed[]): ReadonlySet<string> => {
      under.send(items);
      return new Set(items.filter(({ bad }) => bad).map(({ id }) => id));
    };
    const endsOf = (items: readonly Handed[]): (End | undefined)[] => items.map(({ id }) => under.endOf(id));
    const counts = (items: readonly Handed[]): Record<string, number> => {
      const found: Record<string, number> = {};
      for (const end of endsOf(items)) found[end ?? 'none'] = (found[end ?? 'none'] ?? 0) + 1;
      return found;
    };
    const refuses =
      (bad: () => ReadonlySet<string>, failure: SendFailure) =>
      ({ ids }: SentBatch) =>
        ids.some((id) => bad().has(id)) ? failure : undefined;

    function begin(partitions: number | undefined = 3): void {
      time = fakeTime();
      broker = createFakeBroker(() => time.now, partitions);
      broker.partitions = partitions;
      under = traits.make(broker, () => time.now);
    }
    async function end(): Promise<void> {
      const closed = under.close();
      await time.tickAsync(10_000);
      await closed;
      time.restore();
    }

    beforeEach(() => begin());
    afterEach(end);

    it('sends all of a partition in order, one send at a time', async () => {
      broker.reply = ({ partition = 0 }) =>
        new Promise((answer) => setTimeout(() => answer(undefined), 20 + 7 * partition));
      const items = handed(60);
      for (let at = 0; at < items.length; at += 12) {
        hand(items.slice(at, at + 12));
        await time.tickAsync(10);
      }
      await time.tickAsync(20_000);
      assert.deepEqual(counts(items), { stored: 60 });
      assert.deepEqual([broker.maxAtOnce, broker.stored.length, disordered(broker)], [1, 60, []]);
      assert.ok(broker.sends.every(({ partition }) => partition !== undefined));
    });

    it('takes no more into one send than it may', async () => {
      const items = handed(traits.maxEvents + 1, 1);
      hand(items);
      await time.tickAsync(20_000);
      assert.deepEqual(counts(items), { stored: items.length });
      assert.deepEqual(
        broker.sends.map(({ ids }) => ids.length),
        [traits.maxEvents, 1],
      );
    });

    it('of a topic whose partitions are not known, one record a send, placed by the client', async () => {
      broker.partitions = undefined;
      const items = handed(6);
      hand(items);
      await time.tickAsync(20_000);
      assert.deepEqual(counts(items), { stored: 6 });
      assert.ok(broker.sends.every(({ partition, ids }) => partition === undefined && ids.length === 1));
      assert.deepEqual([broker.maxAtOnce, disordered(broker)], [1, []]);
    });

    for (const failure of [tooLarge, invalid])
      it(`halves what holds ${failure.cause}, down to that record: all others are stored, in order, without a wait`, async () => {
        const items = handed(40, 2, (n) => n === 13);
        let bad: ReadonlySet<string> = new Set();
        broker.reply = refuses(() => bad, failure);
        bad = hand(items);
        await time.tickAsync(900);
        assert.equal(new Set(broker.stored.map(({ headers }) => headers.eventId)).size >= 20, true);
        await time.tickAsync(60_000);
        assert.deepEqual([counts(items).stored, disordered(broker)], [39, []]);
        assert.notEqual(under.endOf('00013'), 'stored');
        assert.equal(broker.stored.length, 39);
      });

    it('a send that may be stored is sent again as it was, if it is: the same records, no more and no fewer', async () => {
      let answers = 0;
      broker.reply = () => (answers++ === 0 ? noAnswer : undefined);
      hand(handed(5, 1));
      await time.tickAsync(50);
      hand(handed(9, 1).slice(5));
      await time.tickAsync(60_000);
      const [first, ...others] = broker.sends;
      const again = others.filter(({ ids }) => ids.some((id) => first?.ids.includes(id)));
      assert.equal(again.length, traits.retries ? 1 : 0);
      for (const { records } of again) {
        assert.equal(records.length, first?.records.length);
        for (const [at, record] of records.entries()) assert.equal(record, first?.records[at]);
      }
      assert.deepEqual(disordered(broker), []);
    });

    it('an outage: what is sent again is in order and stored once', async () => {
      broker.reply = ({ atMs }) => (atMs < 2_500 ? away : undefined);
      const items = handed(30);
      hand(items);
      await time.tickAsync(120_000);
      assert.deepEqual(counts(items), traits.retries ? { stored: 30 } : { elsewhere: 30 });
      assert.equal(broker.stored.length, traits.retries ? 30 : 0);
      assert.deepEqual([broker.maxAtOnce, disordered(broker)], [1, []]);
    });

    if (traits.isInRow !== true)
      it('one partition that fails holds up no other', async () => {
        broker.reply = ({ partition }) => (partition === 0 ? away : undefined);
        hand(handed(60, 20));
        await time.tickAsync(1_500);
        const others = broker.sends.filter(({ partition }) => partition !== 0).flatMap(({ ids }) => ids);
        assert.ok(others.length > 0);
        assert.deepEqual(new Set(others.map((id) => under.endOf(id))), new Set(['stored']));
      });

    it('a client that throws costs nothing but the try', async () => {
      let answers = 0;
      broker.reply = () => {
        if (answers++ === 0) throw new TypeError('broken');
        return undefined;
      };
      const items = handed(4, 1);
      hand(items);
      await time.tickAsync(60_000);
      assert.ok(endsOf(items).every((end) => end !== undefined));
      assert.deepEqual(disordered(broker), []);
    });

    if (traits.limitMs !== undefined)
      it('a send that hangs ends its items in time, and nothing is sent behind its back', async () => {
        const { limitMs = 0 } = traits;
        let answer = (): void => {};
        broker.reply = () => new Promise((resolve) => (answer = () => resolve(undefined)));
        const items = handed(3, 1);
        hand(items);
        await time.tickAsync(limitMs + 6_000);
        const later = handed(6, 1).slice(3);
        hand(later);
        await time.tickAsync(7_000);
        assert.ok(endsOf(items).every((end) => end === 'elsewhere' || end === 'kept'));
        assert.deepEqual([broker.sends.length, broker.maxAtOnce], [1, 1]);
        broker.reply = () => undefined;
        answer();
        await time.tickAsync(100_000);
        assert.ok(endsOf(later).every((end) => end !== undefined));
        assert.deepEqual([broker.maxAtOnce, disordered(broker)], [1, []]);
      });

    it('close gives everything its end, and nothing is sent after it', async () => {
      broker.reply = () => away;
      const items = handed(20);
      hand(items);
      await time.tickAsync(30);
      const closed = under.close();
      await time.tickAsync(10_000);
      await closed;
      assert.ok(endsOf(items).every((end) => end !== undefined));
      const sends = broker.sends.length;
      await time.tickAsync(100_000);
      assert.equal(broker.sends.length, sends);
    });

    it('whatever happens: none is lost, none is twice unless nobody knew, and each key keeps its order', async function () {
      this.timeout(60_000);
      const step = fc.oneof(
        { weight: 5, arbitrary: fc.record({ hand: fc.integer({ min: 1, max: 30 }) }) },
        { weight: 4, arbitrary: fc.record({ wait: fc.nat(2_000) }) },
        { weight: 2, arbitrary: fc.record({ fault: fc.nat(4) }) },
      );
      const runs = fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 25 }), fc.nat(), run);
      await end();
      await fc.assert(runs, { numRuns: 60 });
      begin();

      async function run(
        steps: readonly (typeof step extends fc.Arbitrary<infer T> ? T : never)[],
        seed: number,
      ): Promise<void> {
        begin();
        let state = seed + 1;
        const random = (): number => {
          state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
          return state / 2 ** 32;
        };
        let fault = 0;
        let count = 0;
        const bad = new Set<string>();
        const maybe = new Set<string>();
        const all: Handed[] = [];
        broker.reply = async ({ ids, partition }) => {
          await new Promise((resolve) => setTimeout(resolve, random() * 60));
          if (ids.some((id) => bad.has(id))) return random() < 0.5 ? invalid : tooLarge;
          if (fault === 1 && partition === 0) return away;
          if (fault === 2) return away;
          if (fault === 3 && random() < 0.4) {
            for (const id of ids) maybe.add(id);
            const sent = broker.sends.findLast((one) => one.ids === ids);
            if (random() < 0.5) broker.stored.push(...(sent?.records ?? []));
            return noAnswer;
          }
          return undefined;
        };
        for (const one of steps) {
          if ('wait' in one) await time.tickAsync(one.wait);
          else if ('fault' in one) fault = one.fault;
          else {
            const items = Array.from({ length: one.hand }, () => ({
              ...{
                id: `${count++}`.padStart(5, '0'),
                key: `k${Math.floor(random() * 6)}`,
                bad: random() < 0.03,
              },
            }));
            all.push(...items);
            for (const id of hand(items)) bad.add(id);
          }
        }
        fault = 0;
        await time.tickAsync(200_000);
        const stored = new Map<string, number>();
        for (const { headers } of broker.stored)
          stored.set(headers.eventId as string, (stored.get(headers.eventId as string) ?? 0) + 1);
        for (const { id } of all) {
          const ended = under.endOf(id);
          assert.ok(ended !== undefined, `${id} has no end`);
          if (ended === 'stored') assert.ok(stored.has(id), `${id} is said to be stored`);
          if (bad.has(id)) assert.ok(!stored.has(id) && ended !== 'stored');
          if (!maybe.has(id)) assert.equal(stored.get(id) ?? 0, ended === 'stored' ? 1 : 0, id);
        }
        assert.equal(broker.maxAtOnce <= 1, true);
        assert.deepEqual(disordered(broker), []);
        await end();
      }
    });
  });
}
