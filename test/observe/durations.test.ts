import assert from 'node:assert/strict';
import { createPublishDurations, durationBoundsSeconds } from '../../src/observe/outcomes.ts';

const maxEventTypes = 1000;

describe('durations', () => {
  it('keeps event types apart', () => {
    const durations = createPublishDurations();
    durations.record('A', 1);
    durations.record('B', 2);
    durations.record('A', 3);
    assert.deepEqual(
      [...durations.rows()].map(({ attributes, histogram }) => [
        attributes.eventType,
        histogram.count,
        histogram.sum,
      ]),
      [
        ['A', 2, 4],
        ['B', 1, 2],
      ],
    );
  });

  it('has one listener, with the bounded attributes', () => {
    const durations = createPublishDurations();
    for (let index = 0; index < maxEventTypes; index++) durations.record(`T${index}`, 1);
    const heard: unknown[] = [];
    durations.listen((seconds, attributes) => heard.push([seconds, attributes.eventType]));
    durations.record('T0', 2);
    durations.record('NEW', 3);
    durations.listen(undefined);
    durations.record('T0', 4);
    assert.deepEqual(heard, [
      [2, 'T0'],
      [3, 'other'],
    ]);
  });
});

describe('histogram', () => {
  function histogramOf(...seconds: readonly number[]) {
    const durations = createPublishDurations();
    for (const each of seconds) durations.record('A', each);
    const [row] = durations.rows();
    return row?.histogram ?? assert.fail('no row');
  }

  it('goes from 5 ms to 10 s', () => {
    assert.equal(durationBoundsSeconds[0], 0.005);
    assert.equal(durationBoundsSeconds.at(-1), 10);
    assert.deepEqual(
      durationBoundsSeconds,
      [...durationBoundsSeconds].sort((a, b) => a - b),
    );
  });

  it('puts a value equal to a bound into the bucket that the bound closes', () => {
    const each = durationBoundsSeconds.flatMap((bound) => [bound, bound + 0.0001]);
    const { buckets, count } = histogramOf(0, ...each, Number.POSITIVE_INFINITY);
    assert.deepEqual(buckets, new Array(durationBoundsSeconds.length + 1).fill(2));
    assert.equal(count, 30);
  });

  it('adds up', () => {
    const histogram = histogramOf(0.25, 12);
    assert.equal(histogram.sum, 12.25);
    assert.equal(histogram.count, 2);
    assert.equal(histogram.buckets.at(-1), 1);
  });

  it('knows the largest', () => {
    assert.equal(histogramOf(Number.NaN).max, 0);
    assert.equal(histogramOf(0.2, 12, 3, Number.NaN, -1).max, 12);
  });

  it('ignores what is not a number and counts a negative duration as zero', () => {
    const histogram = histogramOf(Number.NaN, -1);
    assert.equal(histogram.count, 1);
    assert.equal(histogram.sum, 0);
    assert.equal(histogram.buckets[0], 1);
  });
});
