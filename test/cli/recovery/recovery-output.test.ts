import assert from 'node:assert/strict';
import { listColumns, listHead, summaryLines, summaryOf } from '../../../src/cli/recovery.ts';
import { createColumns } from '../../../src/cli/terminal.ts';
import type { RecoveryResult } from '../../../src/start/commands/recovery.ts';

const result: RecoveryResult = {
  source: 'backup folder /b',
  matched: 500,
  skipped: 0,
  sent: 500,
  failed: 0,
  setAside: 0,
  unreadable: [],
  problems: new Map(),
  stoppedBy: undefined,
  isInterrupted: false,
  isAtLimit: false,
};

const stoppedOf = (of: RecoveryResult): unknown => (summaryOf(of) as { stopped: unknown }).stopped;

describe('the summary of a recovery', () => {
  it('of all that was there says so, and no more', () => {
    assert.equal(summaryLines(result, true), 'backup folder /b: 500 of 500 events sent to their topics\n');
    assert.equal(stoppedOf(result), null);
  });

  it('says how many are not sent, all of them, and nothing in it can steer a terminal', () => {
    const text = summaryLines(
      {
        ...result,
        matched: 4,
        sent: 0,
        failed: 4,
        problems: new Map([
          ['cannot reach Kafka', 3],
          ['no topic', 1],
        ]),
        unreadable: [{ place: 'a\u001b[2Jb\u202e.json', reason: 'it is not a file' }],
      },
      true,
    );
    assert.equal(
      text,
      `backup folder /b: 0 of 4 events sent to their topics
not sent: 3 events: cannot reach Kafka
not sent: 1 event: no topic
not readable: a\\u001b[2Jb\\u202e.json: it is not a file
unsent events are still there
`,
    );
    const columns = listColumns({
      ...{ place: 'p', eventId: '1', eventType: '\u202eT', topic: 't\n', key: null, headers: {} },
      ...{ value: Buffer.from(''), storedAt: 0, reason: '\u009bR' },
    });
    let table = '';
    const written = createColumns(listHead, (more) => {
      table += more;
    });
    written.add(columns);
    written.end();
    assert.equal(
      table,
      'STORED  EVENT  TYPE     TOPIC    REASON   PLACE\n-       1      \\u202eT  t\\u000a  \\u009bR  p\n',
    );
  });

  it('after Ctrl-C does not look like that of all that was there', () => {
    const interrupted = { ...result, isInterrupted: true };
    assert.match(
      summaryLines(interrupted, true),
      /\nstopped on request\. Run the command again to go on from here\n$/,
    );
    assert.match(summaryLines(interrupted, false), /\nstopped on request: there may be more\n$/);
    assert.equal(stoppedOf(interrupted), 'stopped on request');
  });

  it('names the cluster that is away, also where somebody has stopped waiting for it', () => {
    const message = 'cannot reach Kafka';
    const away: RecoveryResult = {
      ...result,
      isInterrupted: true,
      stoppedBy: { kind: 'retriable', cause: 'ECONNREFUSED', message },
    };
    assert.match(summaryLines(away, true), /\nstopped: the broker is unreachable\./);
    assert.equal(stoppedOf(away), message);
  });
});
