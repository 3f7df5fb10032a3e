import assert from 'node:assert/strict';
import fc from 'fast-check';
import { away, forbidden, noAnswer } from '../../publish/fake-cluster.ts';
import { createMemoryOutboxStore } from '../memory-outbox-store.ts';
import { onFakeTime } from './fake-time.ts';
import { invalid, inversions, relayOver, rowOf, seededRandom } from './relay-under-test.ts';

/** What happens next, of a thousand things that can. */
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('insert' as const), rows: fc.nat(40) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(3_000) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('broker' as const), fault: fc.nat(4) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('database' as const), isAway: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('relay' as const), crashes: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('late' as const) }) },
);

describe('relay: whatever happens', () => {
  it('loses no row, and keeps the order of each aggregate', async function () {
    this.timeout(120_000);
    const runs = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), fc.nat(), runOf);
    await fc.assert(runs, { numRuns: 300 });
  });

  async function runOf(
    steps: readonly (typeof step extends fc.Arbitrary<infer T> ? T : never)[],
    seed: number,
  ): Promise<void> {
    const its = onFakeTime({ partitions: 3 });
    try {
      const nextRandom = seededRandom(seed + 1);
      let fault = 0;
      let isAway = false;
      let sequence = 0;
      const late: number[] = [];
      its.broker.reply = async ({ topic, records, partition }) => {
        await new Promise((resolve) => setTimeout(resolve, nextRandom() * 60));
        const isBad = records.some(({ headers }) => headers.bad !== undefined);
        if (fault === 1 && partition === 0) return away;
        if (fault === 4 && topic === 'payments') return forbidden;
        if (fault === 2) return away;
        if (fault === 3 && nextRandom() < 0.3) {
          its.broker.stored.push(...(isBad ? [] : records));
          return isBad ? invalid : noAnswer;
        }
        return isBad ? invalid : undefined;
      };
      const relays = [startRelay(), startRelay()];

      function startRelay() {
        const store = createMemoryOutboxStore(() => its.time.now, its.store.table);
        store.failing = isAway ? 'away' : undefined;
        store.delay = () => new Promise((resolve) => setTimeout(resolve, nextRandom() * 80));
        const settings = { maxRetries: 1, batchSize: 20 };
        const relay = relayOver({ store, broker: its.broker }, settings);
        relay.start();
        return { relay, store };
      }

      for (const one of steps) {
        if (one.kind === 'insert') {
          for (let row = 0; row < one.rows; row++) {
            const seq = sequence++;
            const number = Math.floor(nextRandom() * 6);
            const made = rowOf(`a${number}`, seq, { topic: number === 5 ? 'payments' : 'orders' });
            const headers = { ...made.headers, ...(nextRandom() < 0.03 ? { bad: 'yes' } : {}) };
            await its.insert({ ...made, headers });
          }
          if (nextRandom() < 0.5) relays[0]?.relay.wake();
        } else if (one.kind === 'wait') await its.time.tickAsync(one.ms);
        else if (one.kind === 'broker') fault = one.fault;
        else if (one.kind === 'late') late.push(its.store.begin(rowOf(`late${late.length}`, 0)));
        else if (one.kind === 'database') {
          isAway = one.isAway;
          for (const { store } of relays) store.failing = isAway ? 'away' : undefined;
        } else {
          const old = relays.shift();
          // A process that is killed sends nothing more after what the broker has taken already.
          if (one.crashes && old !== undefined) {
            old.store.failing = 'dead';
            await its.time.tickAsync(100);
            void old.relay.stop(0);
          } else void old?.relay.stop(2_000);
          relays.push(startRelay());
        }
      }

      fault = 0;
      for (const { store } of relays) store.failing = undefined;
      for (const id of late) its.store.commit(id);
      await its.time.tickAsync(200_000);
      const rows = [...its.store.table.rows.values()];
      const stored = new Set(its.broker.stored.map(({ headers }) => headers.eventId));
      assert.deepEqual(
        rows.filter(({ status, eventId, headers }) =>
          headers.bad === undefined ? status !== 'PUBLISHED' || !stored.has(eventId) : status !== 'FAILED',
        ),
        [],
      );
      assert.equal(inversions(its.broker.stored), 0);
      await Promise.all(
        relays.map(async ({ relay }) => {
          const stopped = relay.stop(1_000);
          await its.time.tickAsync(2_000);
          await stopped;
        }),
      );
    } finally {
      its.time.restore();
    }
  }
});
