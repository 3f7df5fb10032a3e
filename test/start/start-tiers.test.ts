import assert from 'node:assert/strict';
import { loadConfig } from '../../src/config/read/load.ts';
import { createLedger } from '../../src/observe/outcomes.ts';
import { tiersOf } from '../../src/start/engine.ts';
import { backupEvent, backupIn, freshPath, namesIn } from '../adapters/local-backup/backup-folder.ts';
import { failedEvent } from '../publish/failed-event.ts';
import { fakeCluster } from '../publish/fake-cluster.ts';

describe('the tiers as they are started', () => {
  for (const order of ['key', 'none'] as const) {
    it(`order ${order}: empty the backup when the cluster answers, although no new event has closed the breaker`, async function () {
      this.timeout(15_000);
      const directory = freshPath();
      const backup = backupIn(directory);
      await backup.store(backupEvent('1'));
      await backup.close(1_000);
      const { broker, sends, reply } = fakeCluster();
      reply.current = () => undefined;
      const code = {
        svc: { broker: { topic: 'orders', dlqBackupPath: directory, backup: { drain: { order } } } },
      };
      const { config } = loadConfig({ env: {}, code });
      let answered = 0;
      const tiers = tiersOf(config, {
        ...{ broker, ledger: createLedger(), alert: { lost() {} } },
        cluster: { isAway: true, isThere: async () => true, answered: () => void answered++ },
      });
      for (const end = Date.now() + 10_000; sends.length === 0 && Date.now() < end; )
        await new Promise((resolve) => setTimeout(resolve, 50));
      await tiers.close(1_000);
      assert.deepEqual(
        sends.map(({ ids }) => ids),
        [['1']],
      );
      assert.deepEqual(namesIn(directory), []);
      assert.equal(answered, 1);
    });
  }

  for (const [backup, file, keepsOrder] of [
    [{}, /^segment-[1-9].*\.ndjson$/, true],
    [{ drain: { order: 'none' } }, /^segment-[1-9].*\.ndjson$/, false],
    [{ drain: { enabled: false } }, /^segment-[1-9].*\.ndjson$/, false],
    [{ format: 'event' }, /^7\.json$/, false],
    [{ format: 'record' }, /^\d{13}\.json$/, false],
  ] as const)
    it(`keep ${JSON.stringify(backup)} in ${file}, ${keepsOrder ? 'in order' : 'in no order'}`, async () => {
      const directory = freshPath();
      const code = { svc: { broker: { topic: 'orders', dlqBackupPath: directory, backup } } };
      const { config, problems } = loadConfig({ env: {}, code });
      assert.deepEqual(problems, []);
      const tiers = tiersOf(config, {
        ...{ broker: fakeCluster().broker, ledger: createLedger(), alert: { lost() {} } },
        cluster: { isAway: true, isThere: async () => true, answered() {} },
      });
      assert.equal(tiers.storeSync([failedEvent('7')]), 1);
      assert.equal(namesIn(directory).length, 1);
      assert.match(namesIn(directory)[0] ?? '', file);
      assert.equal(tiers.order !== undefined, keepsOrder);
      await tiers.close(1_000);
    });
});
