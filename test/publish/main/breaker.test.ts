import assert from 'node:assert/strict';
import { circuitStates } from '../../../src/ground/management.ts';
import { notMadeFailure } from '../../../src/publish/broker.ts';
import { createClusterState, defaultBreaker } from '../../../src/publish/main/cluster-state.ts';
import { useClock } from '../../support/fake-time.ts';
import { logInto, useLogger } from '../../support/log.ts';
import { away, forbidden, noAnswer, tooLarge } from '../fake-cluster.ts';

describe('breaker', () => {
  function breaker(random?: () => number) {
    let nowMs = 0;
    const lines: string[] = [];
    let opened = 0;
    useClock({ monotonic: () => nowMs });
    useLogger(logInto(lines));
    const made = createClusterState({
      ...{ ...defaultBreaker, ...(random && { random }) },
      ask: async () => {},
    });
    made.attach({ isWaiting: () => false, onAway: () => opened++, onBack() {} });
    const open = () => {
      for (let sends = 0; sends < 5; sends++) made.failed(away, true);
    };
    return { made, lines, open, opened: () => opened, at: (ms: number) => (nowMs = ms) };
  }

  it('has the states of the gauge in its order', () => {
    assert.deepEqual(circuitStates, ['CLOSED', 'OPEN', 'HALF-OPEN']);
  });

  it('opens at the fifth failed send in a row, not at the fourth', () => {
    const { made, opened } = breaker();
    for (let sends = 0; sends < 4; sends++) made.failed(away, true);
    assert.deepEqual([made.state, made.admit(), opened()], ['CLOSED', 'send', 0]);
    made.failed(noAnswer, true);
    assert.deepEqual([made.state, made.admit(), opened()], ['OPEN', 'refused', 1]);
  });

  it('does not open before a batch has used up its retries, and then with the failures before', () => {
    const { made } = breaker();
    for (let sends = 0; sends < 50; sends++) made.failed(away, false);
    assert.equal(made.state, 'CLOSED');
    made.failed(away, true);
    assert.equal(made.state, 'OPEN');
  });

  it('opens for one partition alone: four sends of one batch and the first of the next', () => {
    const { made } = breaker();
    for (const givenUp of [false, false, false, true]) made.failed(away, givenUp);
    assert.equal(made.state, 'CLOSED');
    made.failed(away, false);
    assert.equal(made.state, 'OPEN');
  });

  it('begins anew after each answer, a record that is too large among them', () => {
    const { made } = breaker();
    for (let sends = 0; sends < 4; sends++) made.failed(away, true);
    made.answered();
    for (let sends = 0; sends < 4; sends++) made.failed(away, true);
    made.failed(tooLarge, true);
    for (let sends = 0; sends < 4; sends++) made.failed(away, true);
    assert.equal(made.state, 'CLOSED');
  });

  it('does not count what says nothing about the cluster', () => {
    const { made } = breaker();
    const missing = { ...away, cause: 'UNKNOWN_TOPIC_OR_PARTITION' };
    for (let sends = 0; sends < 50; sends++) {
      made.failed(forbidden, true);
      made.failed(missing, true);
    }
    assert.equal(made.state, 'CLOSED');
  });

  it('hears nothing of a record that cannot be encoded, neither that the cluster is away nor that it is there', () => {
    const { made, open, at } = breaker();
    const notMade = notMadeFailure('TypeError');
    for (let sends = 0; sends < 50; sends++) made.failed(notMade, true);
    assert.equal(made.state, 'CLOSED');
    open();
    at(1_000);
    assert.equal(made.admit(), 'probe');
    made.failed(notMade, true);
    assert.equal(made.state, 'HALF-OPEN');
    made.probeGone();
    assert.equal(made.state, 'OPEN');
  });

  it('takes what Kafka says of one record, or of the clock, for an answer', () => {
    for (const cause of ['INVALID_RECORD', 'INVALID_TIMESTAMP', 'CORRUPT_MESSAGE']) {
      const { made, open, at } = breaker();
      open();
      at(1_000);
      made.admit();
      made.failed({ kind: 'fatal', cause, message: 'no' }, true);
      assert.equal(made.state, 'CLOSED', cause);
    }
  });

  it('lets one probe through a second after it opened, and one more a second after that one failed', () => {
    const { made, open, at, opened } = breaker();
    open();
    at(999);
    assert.equal(made.admit(), 'refused');
    at(1_000);
    assert.deepEqual([made.admit(), made.state, made.admit()], ['probe', 'HALF-OPEN', 'refused']);
    at(5_000);
    assert.equal(made.admit(), 'refused', 'a probe is under way');
    made.failed(away, true);
    assert.deepEqual([made.state, made.admit(), opened()], ['OPEN', 'refused', 1]);
    at(5_999);
    assert.equal(made.admit(), 'refused');
    at(6_000);
    assert.equal(made.admit(), 'probe');
    made.answered();
    assert.deepEqual([made.state, made.admit()], ['CLOSED', 'send']);
  });

  it('tries again after a quarter of a second where the cluster answers that it is starting', () => {
    for (const [cause, waitMs] of [
      ['LEADER_NOT_AVAILABLE', 250],
      ['NOT_LEADER_OR_FOLLOWER', 250],
      ['NOT_LEADER_FOR_PARTITION', 250],
      ['NOT_ENOUGH_REPLICAS', 250],
      // It stores the record each time.
      ['NOT_ENOUGH_REPLICAS_AFTER_APPEND', 1_000],
      ['ECONNREFUSED', 1_000],
    ] as const) {
      const { made, open, at } = breaker();
      open();
      at(1_000);
      made.admit();
      made.failed({ ...away, cause }, true);
      at(1_000 + waitMs - 1);
      assert.equal(made.admit(), 'refused', cause);
      at(1_000 + waitMs);
      assert.equal(made.admit(), 'probe', cause);
    }
  });

  it('spreads the probes of many processes by a fifth to each side', () => {
    for (const [random, waitMs] of [
      [0, 800],
      [0.5, 1_000],
      [0.75, 1_100],
    ] as const) {
      const { made, open, at } = breaker(() => random);
      open();
      at(waitMs - 1);
      assert.equal(made.admit(), 'refused');
      at(waitMs);
      assert.equal(made.admit(), 'probe');
    }
  });

  it('closes when the cluster answers a probe that the topic is refused or missing, not when nobody asked it', () => {
    for (const [failure, state] of [
      [forbidden, 'CLOSED'],
      [{ ...away, cause: 'UNKNOWN_TOPIC_OR_PARTITION' }, 'CLOSED'],
      [{ ...forbidden, cause: 'INVALID_TOPIC_EXCEPTION' }, 'OPEN'],
      [{ ...away, cause: 'UNKNOWN_PARTITION' }, 'OPEN'],
      [{ ...forbidden, cause: 'SASL_AUTHENTICATION_FAILED' }, 'OPEN'],
    ] as const) {
      const { made, open, at } = breaker();
      open();
      made.failed(failure, true);
      assert.equal(made.state, 'OPEN', 'no probe');
      at(1_000);
      made.admit();
      made.failed(failure, true);
      made.probeGone();
      assert.equal(made.state, state, failure.cause);
    }
  });

  it('sends another probe when one ended without a send', () => {
    const { made, open, at } = breaker();
    made.probeGone();
    assert.equal(made.state, 'CLOSED');
    open();
    at(1_000);
    made.admit();
    made.probeGone();
    assert.equal(made.state, 'OPEN');
    at(2_000);
    assert.equal(made.admit(), 'probe');
  });

  it('is closed by a reset, from every state, and counts from zero', () => {
    const { made, open, at, lines } = breaker();
    for (let sends = 0; sends < 4; sends++) made.failed(away, true);
    made.reset();
    assert.deepEqual(lines, [], 'its state is the same');
    for (let sends = 0; sends < 4; sends++) made.failed(away, true);
    assert.equal(made.state, 'CLOSED');
    open();
    made.reset();
    assert.deepEqual([made.state, made.admit()], ['CLOSED', 'send']);
    assert.equal(
      lines.at(-1),
      'info Circuit breaker is CLOSED by a reset: events are sent to the cluster again',
    );
    open();
    at(1_000);
    made.admit();
    made.reset();
    made.failed(away, true);
    made.probeGone();
    assert.equal(made.state, 'CLOSED', 'the probe under way counts as any send');
  });

  it('says when it opens and closes, and the steps between only at debug', () => {
    const { made, open, at, lines } = breaker();
    made.answered();
    open();
    made.failed(away, true);
    at(1_000);
    made.admit();
    made.failed(away, true);
    at(2_000);
    made.admit();
    made.answered();
    made.answered();
    assert.deepEqual(lines, [
      'warn Circuit breaker is OPEN: new events go to the next tier until the cluster answers (cannot reach Kafka)',
      'debug Circuit breaker is HALF-OPEN: one event tests the cluster',
      'debug Circuit breaker is OPEN: the cluster is still unreachable (cannot reach Kafka)',
      'debug Circuit breaker is HALF-OPEN: one event tests the cluster',
      'info Circuit breaker is CLOSED: events are sent to the cluster again',
    ]);
  });
});
