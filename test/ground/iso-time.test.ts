import assert from 'node:assert/strict';
import fc from 'fast-check';
import { isoTime } from '../../src/ground/event-fields.ts';

describe('isoTime', () => {
  it('equals toISOString for any time, in any order', () => {
    const times = fc.integer({ min: -8.64e15, max: 8.64e15 });
    const near = fc.integer({ min: Date.UTC(2026, 0), max: Date.UTC(2026, 0) + 4000 });
    fc.assert(
      fc.property(fc.oneof(times, near), (ms) => {
        assert.equal(isoTime(ms), new Date(ms).toISOString());
      }),
      { numRuns: 2000 },
    );
  });

  it('cuts fractions of a millisecond off', () => {
    assert.equal(isoTime(Date.UTC(2026, 2, 4, 10, 0, 0, 120) + 0.9), '2026-03-04T10:00:00.120Z');
  });

  it('throws as toISOString does, and is right again after', () => {
    assert.throws(() => isoTime(Number.NaN), RangeError);
    assert.throws(() => isoTime(8.64e15 + 1000), RangeError);
    assert.equal(isoTime(0), '1970-01-01T00:00:00.000Z');
  });
});
