import assert from 'node:assert/strict';
import type { SendFailure } from '../../../src/publish/broker.ts';
import type { BackupEvent, EventBackupStrategy, FailedEvent } from '../../../src/publish/tier.ts';
import { createBackupTier, createTierChain, type Tier } from '../../../src/publish/tiers/tiers.ts';
import { failedEvent } from '../failed-event.ts';

const spilled: SendFailure = {
  kind: 'retriable',
  cause: 'BehindBackup',
  message: 'it waits',
  endedBy: 'behind',
};
const behind: FailedEvent = failedEvent('1', { failure: spilled });

describe('an event that goes behind others in the backup', () => {
  function tier(name: Tier['name'], takes: boolean, asked: string[]): Tier {
    return { name, store: async () => asked.push(name) > 0 && takes, close: async () => {} };
  }

  for (const [takes, outcome, order] of [
    [{ backup: true, dlq: true }, 'backup', ['backup']],
    [{ backup: false, dlq: true }, 'dlq', ['backup', 'dlq']],
    [{ backup: false, dlq: false }, 'lost', ['backup', 'dlq']],
  ] as const) {
    it(`ends as ${outcome}: the backup is asked before the dead letter topic`, async () => {
      const asked: string[] = [];
      const lost: FailedEvent[] = [];
      const chain = createTierChain({
        tiers: [tier('dlq', takes.dlq, asked), tier('backup', takes.backup, asked)],
        onKept() {},
        onDlqFailed() {},
        onLost: (failed) => void lost.push(failed),
      });
      assert.equal(await chain.next(behind), outcome);
      assert.deepEqual(asked, order);
      assert.equal(lost.length, outcome === 'lost' ? 1 : 0);
      // It waits in memory, and is asked for again.
      await chain.next({ ...behind, failure: { ...spilled, endedBy: 'behind-unless-full' } });
      assert.equal(lost.length, outcome === 'lost' ? 1 : 0);
    });
  }

  it('goes to the place that is drained first, and only that one is told of', async () => {
    const stored: string[] = [];
    const place = (name: string): EventBackupStrategy => ({
      name,
      store: async ({ eventId }: BackupEvent) => void stored.push(`${name} ${eventId}`),
    });
    const [s3, local] = [place('s3'), place('local')];
    const drainable: FailedEvent[] = [];
    const backup = createBackupTier({
      ...{ strategies: () => [s3, local], drained: local },
      onDrainable: (failed) => void drainable.push(failed),
    });
    await backup.store(failedEvent('1'));
    await backup.store(behind);
    assert.deepEqual(stored, ['s3 1', 'local 1']);
    assert.deepEqual(drainable, [behind]);
  });
});
