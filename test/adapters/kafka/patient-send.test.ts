import assert from 'node:assert/strict';
import type sinon from 'sinon';
import { createSendWhenTopicReady } from '../../../src/adapters/kafka/session.ts';
import type { SendFailureKind, SendResult } from '../../../src/publish/broker.ts';
import { fakeTime } from '../../support/fake-time.ts';
import { textRecord } from './kafka-options.ts';

const failure = (cause: string, kind: SendFailureKind = 'retriable'): SendResult => ({
  ok: false,
  failure: { kind, cause, message: cause },
});
const unknown = failure('UNKNOWN_TOPIC_OR_PARTITION');
const notLeader = failure('NOT_LEADER_FOR_PARTITION');
const ok: SendResult = { ok: true };

describe('patient send', () => {
  let clock: sinon.SinonFakeTimers;
  beforeEach(() => {
    clock = fakeTime();
  });
  afterEach(() => clock.restore());

  /** Answers in turn, the last one for ever. */
  const answers = <T>(...all: T[]) => {
    let calls = 0;
    return { next: async (): Promise<T> => all[Math.min(calls++, all.length - 1)] as T, calls: () => calls };
  };
  const setUp = (results: SendResult[], ready: boolean[]) => {
    const [send, isReady] = [answers(...results), answers(...ready)];
    const patient = createSendWhenTopicReady({ send: send.next, isReady: isReady.next, limitMs: 1000 });
    return { send, isReady, patient: (topic = 'new') => patient(topic, 0, [textRecord('x')]) };
  };

  it('sends again when the topic has its leaders', async () => {
    const { patient, send, isReady } = setUp([unknown, ok], [false, false, true]);
    const result = patient();
    await clock.tickAsync(20 + 40);
    assert.equal(send.calls(), 1);
    await clock.tickAsync(80);
    assert.deepEqual(await result, ok);
    assert.deepEqual([send.calls(), isReady.calls()], [2, 3]);
  });

  it('gives up at the limit with the first failure, and does not wait for that topic again', async () => {
    const { patient, send } = setUp([unknown], [false]);
    const result = patient();
    await clock.tickAsync(1000);
    assert.equal(await result, unknown);
    assert.equal(await patient(), unknown);
    assert.equal(send.calls(), 2);
    const other = patient('other');
    await clock.tickAsync(1000);
    assert.equal(await other, unknown);
  });

  it('waits a second for a topic that the cluster does not know, and up to the limit for one without leaders', async () => {
    const setUpFor = (isReady: () => Promise<boolean>) =>
      createSendWhenTopicReady({ send: async () => unknown, isReady, limitMs: 5_000 })('new', 0, [
        textRecord('x'),
      ]);
    const waited = async (result: Promise<SendResult>): Promise<number> => {
      const sinceMs = performance.now();
      let endMs: number | undefined;
      void result.then(() => {
        endMs = performance.now();
      });
      await clock.tickAsync(6_000);
      return (endMs ?? Number.NaN) - sinceMs;
    };
    const unknownFor = await waited(setUpFor(async () => false));
    assert.ok(unknownFor >= 1_000 && unknownFor < 1_300, `${unknownFor}`);
    const leaderlessFor = await waited(setUpFor(() => Promise.reject(new Error('LEADER_NOT_AVAILABLE'))));
    assert.ok(leaderlessFor > 4_700 && leaderlessFor <= 5_000, `${leaderlessFor}`);
  });

  it('remembers a thousand topics that are missing, and no more', async () => {
    const { patient, isReady } = setUp([unknown], [false]);
    const first = patient('first');
    await clock.tickAsync(1000);
    await first;
    const others = Promise.all(Array.from({ length: 999 }, (_, id) => patient(`topic-${id}`)));
    await clock.tickAsync(1000);
    await others;
    const calls = isReady.calls();
    await patient('first');
    assert.equal(isReady.calls(), calls);
    const last = patient('last');
    await clock.tickAsync(1000);
    await last;
    const again = patient('first');
    await clock.tickAsync(1000);
    await again;
    assert.ok(isReady.calls() > calls + 5);
  });

  it('waits again once a send to the topic has succeeded', async () => {
    const { patient, isReady } = setUp(
      [unknown, ok, unknown, ok],
      [false, false, false, false, false, false, true],
    );
    const first = patient();
    await clock.tickAsync(1000);
    await first;
    assert.deepEqual(await patient(), ok);
    const polls = isReady.calls();
    const later = patient();
    await clock.tickAsync(1000);
    assert.deepEqual(await later, ok);
    assert.ok(isReady.calls() > polls);
  });

  it('shares one poll among all who wait', async () => {
    const { patient, isReady } = setUp([unknown, unknown, unknown, ok], [true]);
    const all = Promise.all([patient(), patient(), patient()]);
    await clock.tickAsync(100);
    assert.deepEqual(await all, [ok, ok, ok]);
    assert.equal(isReady.calls(), 1);
  });

  it('goes on while the leader does not know yet that it is one', async () => {
    const { patient, send } = setUp([unknown, notLeader, notLeader, ok], [true]);
    const result = patient();
    await clock.tickAsync(200);
    assert.deepEqual(await result, ok);
    assert.equal(send.calls(), 4);
  });

  it('waits for a partition without a leader each time', async () => {
    const { patient } = setUp([failure('LEADER_NOT_AVAILABLE')], [false]);
    for (const _ of [1, 2]) {
      let settled = false;
      const result = patient().finally(() => {
        settled = true;
      });
      await clock.tickAsync(500);
      assert.equal(settled, false);
      await clock.tickAsync(500);
      await result;
    }
  });

  it('leaves every other failure to the caller', async () => {
    for (const other of [
      notLeader,
      failure('ECONNREFUSED'),
      failure('UNKNOWN_TOPIC_OR_PARTITION', 'unknown_outcome'),
    ]) {
      const { patient, send } = setUp([other, ok], [true]);
      assert.equal(await patient(), other);
      assert.equal(send.calls(), 1);
    }
  });
});
