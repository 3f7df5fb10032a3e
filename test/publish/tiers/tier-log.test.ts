import assert from 'node:assert/strict';
import { maxRecentDlqEvents } from '../../../src/observe/outcomes.ts';
import { createTierLog } from '../../../src/publish/tiers/tiers.ts';
import { collectLines } from '../../outbox/relay/relay-under-test.ts';
import { useClock } from '../../support/fake-time.ts';
import { useLogger } from '../../support/log.ts';
import { failedEvent } from '../failed-event.ts';

describe('what is told of events that a tier has kept', () => {
  it('is an error where the clock of the machine is why, and a warning elsewhere', () => {
    const { lines, logger } = collectLines();
    useLogger(logger);
    const { kept } = createTierLog();
    for (const cause of ['INVALID_TIMESTAMP', 'INVALID_RECORD'])
      for (const id of ['1', '2'])
        kept('backup', failedEvent(id, { failure: { kind: 'fatal', cause, message: cause } }));
    assert.deepEqual(lines, [
      'error event kept in the backup: INVALID_TIMESTAMP',
      'warn event kept in the backup: INVALID_RECORD',
    ]);
  });

  it('is a list of the last ten of the dead letter topic, the newest first, without any payload', () => {
    let nowMs = 0;
    useClock({ now: () => nowMs });
    const { kept, recentDlq } = createTierLog();
    const failed = failedEvent('1');
    kept('backup', failed);
    assert.deepEqual(recentDlq(), []);
    for (nowMs = 1; nowMs <= maxRecentDlqEvents + 1; nowMs++) kept('dlq', failed);
    const list = recentDlq();
    assert.deepEqual(
      list.map(({ timestampMs }) => timestampMs),
      [11, 10, 9, 8, 7, 6, 5, 4, 3, 2],
    );
    const { eventType } = failed.event;
    const { cause, message } = failed.failure;
    assert.deepEqual(list[0], { eventType, failureReason: `${cause}: ${message}`, timestampMs: 11 });
  });
});
