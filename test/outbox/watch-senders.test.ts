import assert from 'node:assert/strict';
import { watchSenders } from '../../src/outbox/outbox-health.ts';
import type { Senders } from '../../src/outbox/outbox-store.ts';
import { clockOfEach } from '../support/fake-time.ts';
import { useLogger } from '../support/log.ts';

const refusedLookMs = 5_000;
const lookMs = 60_000;

const plain: Senders = { erases: false, isRouted: false, log: 'none', relays: 1, oldestMs: null };

describe('a look at who sends the rows', () => {
  const time = clockOfEach();

  function watched() {
    const lines: string[] = [];
    const say = (level: string) => (message: string) => void lines.push(`${level} ${message.slice(0, 30)}`);
    const state = { now: plain as Senders | Error, looks: 0 };
    useLogger({ debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') });
    const watch = watchSenders({
      store: {
        async senders() {
          state.looks++;
          if (state.now instanceof Error) throw state.now;
          return state.now;
        },
        async traits() {
          return { writingViews: [], maxPacketBytes: 1_024 };
        },
      },
      settings: { dialect: 'postgres', table: 't', publisherEnabled: false, retentionDays: 7 },
      isRelay: false,
    });
    return { watch, state, lines };
  }

  it('is repeated each minute, while calls fail each 5 s; what it finds is said once, and what it cannot ask stays', async () => {
    const { watch, state, lines } = watched();
    await watch.look();
    state.now = { ...plain, erases: true };
    await time.tickAsync(lookMs - 1);
    assert.equal(watch.refusal(), undefined);
    await time.tickAsync(1);
    assert.equal(watch.refusal()?.code, 'SVC_OUTBOX_CONTRADICTION');
    state.now = new Error('away');
    await time.tickAsync(refusedLookMs);
    assert.equal(watch.refusal()?.code, 'SVC_OUTBOX_CONTRADICTION');
    state.now = plain;
    await time.tickAsync(refusedLookMs);
    assert.equal(watch.refusal(), undefined);
    assert.equal(state.looks, 4);
    assert.deepEqual(lines, [
      'error outbox: a trigger of the table',
      'debug outbox: svc cannot find out wh',
      'info outbox: the table t fits the s',
    ]);
  });

  it('of rows that nobody sends is said once, however long they wait', async () => {
    const { watch, state, lines } = watched();
    state.now = { ...plain, relays: 0, oldestMs: 70_000 };
    await watch.look();
    state.now = { ...plain, relays: 0, oldestMs: 130_000 };
    await time.tickAsync(lookMs);
    assert.match(watch.remark() ?? '', /wait for 2 min/);
    assert.equal(lines.length, 1);
    watch.stop();
    await time.tickAsync(lookMs * 3);
    assert.equal(state.looks, 2);
  });
});
