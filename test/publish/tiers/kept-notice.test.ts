import assert from 'node:assert/strict';
import { createKeptNotice } from '../../../src/publish/tiers/kept-notice.ts';
import { collectLines } from '../../outbox/relay/relay-under-test.ts';
import { failedEvent } from '../failed-event.ts';

describe('the notice of events that a tier has kept', () => {
  it('is an error where the clock of the machine is why, and a warning elsewhere', () => {
    const { lines, logger } = collectLines();
    const notice = createKeptNotice(logger, { now: () => 0, monotonic: () => 0 });
    for (const cause of ['INVALID_TIMESTAMP', 'INVALID_RECORD'])
      for (const id of ['1', '2'])
        notice('backup', failedEvent(id, { failure: { kind: 'fatal', cause, message: cause } }));
    assert.deepEqual(lines, [
      'error event kept in the backup: INVALID_TIMESTAMP',
      'warn event kept in the backup: INVALID_RECORD',
    ]);
  });
});
