import assert from 'node:assert/strict';
import { summaryLines, summaryOf } from '../../../src/cli/recovery.ts';
import type { RecoveryResult } from '../../../src/start/commands/recovery.ts';
import { backupEvent, backupIn } from '../../adapters/local-backup/backup-folder.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { svcHere } from '../support/svc-here.ts';

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
  });

  it('in a list of events, nothing can steer a terminal either', async () => {
    const cwd = temporaryFolder('recovery-output');
    const backup = backupIn(cwd, { isJournal: true });
    await backup.store(
      backupEvent('1', { eventType: '\u202eT', topic: 't\n', reason: '\u009bR', backedUpAt: 0 }),
    );
    await backup.close(1_000);
    const { code, stdout } = await svcHere(['backup', 'list', '--dir', cwd], { cwd });
    assert.equal(code, 0);
    const [head, row, ...more] = stdout.split('\n');
    assert.equal(head, 'STORED  EVENT  TYPE     TOPIC    REASON   PLACE');
    assert.match(row ?? '', /^- {7}1 {6}\\u202eT {2}t\\u000a {2}\\u009bR {2}segment-\S+$/);
    assert.deepEqual(more, ['']);
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
