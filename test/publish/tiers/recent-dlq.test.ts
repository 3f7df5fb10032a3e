import assert from 'node:assert/strict';
import { maxRecentDlqEvents } from '../../../src/observe/metrics.ts';
import { createRecentDlqEvents } from '../../../src/publish/tiers/recent-dlq.ts';
import { failedEvent } from '../failed-event.ts';

describe('recent dead letters', () => {
  it('are the last ten, the newest first, without any payload', () => {
    let nowMs = 0;
    const recent = createRecentDlqEvents({ now: () => nowMs, monotonic: () => 0 });
    assert.deepEqual(recent.list(), []);
    const failed = failedEvent('1');
    for (nowMs = 1; nowMs <= maxRecentDlqEvents + 1; nowMs++) recent.add(failed);
    const list = recent.list();
    assert.deepEqual(
      list.map(({ timestampMs }) => timestampMs),
      [11, 10, 9, 8, 7, 6, 5, 4, 3, 2],
    );
    const { eventType } = failed.event;
    const { cause, message } = failed.failure;
    assert.deepEqual(list[0], { eventType, failureReason: `${cause}: ${message}`, timestampMs: 11 });
  });
});
