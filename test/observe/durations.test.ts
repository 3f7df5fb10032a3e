import assert from 'node:assert/strict';
import { createPublishDurations } from '../../src/observe/durations.ts';
import { maxEventTypes } from '../../src/observe/event-rows.ts';

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
