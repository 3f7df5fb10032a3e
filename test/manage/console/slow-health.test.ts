import assert from 'node:assert/strict';
import { askSlowly, type Totals } from '../../../src/manage/health.ts';
import { useClock } from '../../support/fake-time.ts';
import { downHealth, upHealth } from '../fake-controls.ts';

describe('health for a page that asks every two seconds', () => {
  const nothing = { published: 0, failed: 0, dlq: 0, brokerErrors: 0, sends: 0, sendSeconds: 0 };

  function harness(first: typeof upHealth) {
    let [nowMs, asked, health] = [0, 0, first];
    let counted: Totals = nothing;
    useClock({ monotonic: () => nowMs });
    const ask = askSlowly(
      async () => {
        asked++;
        return health;
      },
      { within: () => counted, close() {} },
    );
    return {
      at(ms: number) {
        nowMs = ms;
        return ask();
      },
      becomes(next: typeof upHealth, recent: Partial<Totals> = {}) {
        health = next;
        counted = { ...nothing, ...recent };
      },
      asked: () => asked,
    };
  }

  it('asks for it every 15 s while it is UP, and every 5 s while it is not', async () => {
    const { at, becomes, asked } = harness(upHealth);
    await at(0);
    becomes(downHealth);
    assert.equal((await at(14_999)).status, 'UP');
    assert.equal(asked(), 1);
    assert.equal((await at(15_000)).status, 'DOWN');
    becomes(upHealth);
    assert.equal((await at(19_999)).status, 'DOWN');
    assert.equal((await at(20_000)).status, 'UP');
    assert.equal(asked(), 3);
  });

  it('has the thresholds by the counts of now', async () => {
    const { at, becomes } = harness(upHealth);
    assert.equal((await at(0)).details.findings, undefined);
    becomes(upHealth, { dlq: 2 });
    assert.match(String((await at(2_000)).details.findings), /^WARNING: 2 dead letters/);
    becomes(upHealth);
    const { state, findings } = (await at(4_000)).details;
    assert.deepEqual([state, findings], ['HEALTHY', undefined]);
  });
});
