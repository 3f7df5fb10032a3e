import assert from 'node:assert/strict';
import { createAnswerTimes } from '../../../src/adapters/kafka/session.ts';
import { useClock } from '../../support/fake-time.ts';

describe('answer times', () => {
  let nowMs: number;
  const times = () => {
    nowMs = 1_000;
    useClock({ monotonic: () => nowMs });
    return createAnswerTimes();
  };

  it('have no mean before the first answer', () => {
    assert.equal(times().mean(), null);
  });

  it('are the mean of this half minute and the one before', () => {
    const made = times();
    made.record(10);
    nowMs = 30_999;
    made.record(20);
    assert.equal(made.mean(), 15);
    nowMs = 31_000;
    made.record(60);
    assert.equal(made.mean(), 30);
    nowMs = 60_999;
    assert.equal(made.mean(), 30);
    nowMs = 61_000;
    assert.equal(made.mean(), 60);
    nowMs = 91_000;
    assert.equal(made.mean(), null);
  });

  it('forget what was before a long silence', () => {
    const made = times();
    made.record(10);
    nowMs = 1_000_000;
    made.record(5);
    assert.equal(made.mean(), 5);
  });
});
