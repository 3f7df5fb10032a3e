import assert from 'node:assert/strict';
import { createLedger, type Outcome, outcomes } from '../../../src/observe/outcomes.ts';
import { createRefusalAlert } from '../../../src/publish/api/caller-wait.ts';
import { useClock } from '../../support/fake-time.ts';

describe('refusals in the health', () => {
  const startMs = Date.parse('2026-03-04T10:00:00Z');
  let nowMs: number;
  let ledger: ReturnType<typeof createLedger>;
  let alert: ReturnType<typeof createRefusalAlert>;
  beforeEach(() => {
    nowMs = 0;
    ledger = createLedger();
    useClock({ now: () => startMs + nowMs, monotonic: () => nowMs });
    alert = createRefusalAlert(ledger.rows);
  });

  const count = (outcome: Outcome, eventType = 'T'): void => void ledger.open(eventType).close(outcome);
  function refuse(reason = 'T (SVC_X): no'): void {
    count('refused');
    alert.refused(reason);
  }
  const at = (ms: number): string | undefined => {
    nowMs = ms;
    return alert.state();
  };

  it('nothing but refusals for ten seconds: how many, since when, and the last reason', () => {
    assert.equal(at(0), undefined);
    refuse();
    assert.equal(at(1_000), undefined);
    refuse();
    assert.equal(at(10_999), undefined);
    refuse('U (SVC_Y): not that either');
    const line =
      'all events are refused since 2026-03-04T10:00:01Z (3): the last one, U (SVC_Y): not that either';
    assert.equal(at(11_000), line);
    assert.equal(at(900_000), line);
  });

  it('one event with another outcome ends it, whichever it is, and the next refusals begin anew', () => {
    for (const [round, outcome] of outcomes.filter((each) => each !== 'refused').entries()) {
      const fromMs = round * 100_000;
      refuse();
      assert.equal(at(fromMs), undefined);
      refuse();
      assert.match(at(fromMs + 10_000) ?? '', /\(2\)/);
      count(outcome, 'OTHER');
      assert.equal(at(fromMs + 10_001), undefined, outcome);
    }
  });

  it('goes on for half a minute after the last one: who gets no requests is tried again', () => {
    const goesOn = (ms: number): boolean => {
      nowMs = ms;
      return alert.isGoingOn();
    };
    refuse();
    assert.equal(goesOn(0), false);
    refuse();
    assert.equal(goesOn(10_000), true);
    assert.equal(goesOn(39_999), true);
    assert.equal(goesOn(40_000), false);
    assert.match(at(40_000) ?? '', /are refused/);
    refuse();
    assert.equal(goesOn(41_000), true);
    count('published');
    assert.equal(goesOn(42_000), false);
  });

  it('is quiet where refusals stand among others, and where they all came at once', () => {
    for (let ms = 0; ms < 60_000; ms += 5_000) {
      refuse();
      count('published');
      assert.equal(at(ms), undefined);
    }
    refuse();
    refuse();
    for (let ms = 60_000; ms < 120_000; ms += 5_000) assert.equal(at(ms), undefined);
  });

  it('counts those of worker threads, whose reasons it does not know', () => {
    count('refused');
    at(0);
    count('refused');
    assert.match(at(10_000) ?? '', /: see the log of its worker threads$/);
  });
});
