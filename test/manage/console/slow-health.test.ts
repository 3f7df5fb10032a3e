import assert from 'node:assert/strict';
import { watchHealth } from '../../../src/manage/health.ts';
import { useClock } from '../../support/fake-time.ts';
import { upHealth } from '../fake-controls.ts';

describe('health for a page that asks every two seconds', () => {
  const nothing = { published: 0, failed: 0, dlq: 0, brokerErrors: 0, sends: 0, sendSeconds: 0 };

  function harness() {
    let [nowMs, asked, isUp, counted] = [0, 0, true, nothing];
    useClock({ monotonic: () => nowMs });
    const { healthOfPage, close } = watchHealth({
      async probe() {
        asked++;
        if (!isUp) throw new Error('away');
        return { clusterId: 'c', nodeCount: 1 };
      },
      known: () => upHealth.details,
      totals: () => counted,
      sample: () => nothing,
    });
    close();
    return {
      at(ms: number) {
        nowMs = ms;
        return healthOfPage();
      },
      becomes(next: 'UP' | 'DOWN', recent: Partial<typeof nothing> = {}) {
        isUp = next === 'UP';
        counted = { ...nothing, ...recent };
      },
      asked: () => asked,
    };
  }

  it('asks for it every 15 s while it is UP, and every 5 s while it is not', async () => {
    const { at, becomes, asked } = harness();
    await at(0);
    becomes('DOWN');
    assert.equal((await at(14_999)).status, 'UP');
    assert.equal(asked(), 1);
    assert.equal((await at(15_000)).status, 'DOWN');
    becomes('UP');
    assert.equal((await at(19_999)).status, 'DOWN');
    assert.equal((await at(20_000)).status, 'UP');
    assert.equal(asked(), 3);
  });

  it('has the thresholds by the counts of now', async () => {
    const { at, becomes } = harness();
    assert.equal((await at(0)).details.findings, undefined);
    becomes('UP', { dlq: 2 });
    assert.match(String((await at(2_000)).details.findings), /^WARNING: 2 dead letters/);
    becomes('UP');
    const { state, findings } = (await at(4_000)).details;
    assert.deepEqual([state, findings], ['HEALTHY', undefined]);
  });
});
