import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { OutboxSummary } from '../../src/manage/controls.ts';
import { watchHealth } from '../../src/manage/health.ts';
import type { TargetState } from '../../src/observe/outcomes.ts';
import { clockOfEach } from '../support/fake-time.ts';
import { measuredHealth, noCounts as none } from './measured-health.ts';

type Totals = typeof none;

describe('thresholds of monitoring', () => {
  const clock = clockOfEach();
  const found = async (recent: Partial<Totals>, outbox: Partial<OutboxSummary> = {}, dlqOfLastMinute = 0) => {
    const { state, findings = [] } = await measuredHealth({
      ...{ recent, outbox },
      earlier: { counts: { dlq: (recent.dlq ?? 0) - dlqOfLastMinute }, pass: () => clock.tick(70_000) },
    });
    assert.equal(state, findings[0]?.split(':')[0] ?? 'HEALTHY');
    return findings;
  };
  const states = async (...given: Parameters<typeof found>): Promise<string> =>
    (await found(...given)).map((finding) => finding.split(':')[0]).join();

  it('nothing happened: none is crossed, with an outbox and without', async () => {
    assert.deepEqual(await found({}), []);
    assert.deepEqual(await measuredHealth({}), { state: 'HEALTHY' });
  });

  it('targets that make no events: a warning with the reasons', async () => {
    const counts = { calls: 0, failed: 0, skipped: 0 };
    const ofTargets = async (...states: readonly TargetState[]) => {
      const targets = states.map((state, index) => ({
        ...{ target: `t${index}`, state, reason: `r${index}`, ...counts },
      }));
      return (await measuredHealth({ targets: () => targets })).findings;
    };
    assert.deepEqual(await ofTargets('patched', 'pending'), undefined);
    assert.deepEqual(await ofTargets('unloaded', 'patched', 'failed'), [
      'WARNING: 2 of 3 targets make no events: t0: r0; t2: r2',
    ]);
    assert.match(
      (await ofTargets('failed', 'failed', 'failed', 'failed', 'failed'))?.[0] ?? '',
      /; t2: r2; and 2 more$/,
    );
  });

  const rows: readonly (readonly [title: string, state: string, ...Parameters<typeof found>])[] = [
    ['99.5 % got there', '', { published: 995, failed: 5 }],
    ['99.4 %', 'WARNING', { published: 994, failed: 6 }],
    ['95 %', 'WARNING', { published: 95, failed: 5 }],
    ['94.9 %', 'CRITICAL', { published: 949, failed: 51 }],
    ['one dead letter', 'WARNING', { dlq: 1 }],
    ['ten, and one now', 'WARNING', { dlq: 10 }, {}, 1],
    ['eleven, and none now', 'WARNING', { dlq: 11 }],
    ['eleven, and one now', 'CRITICAL', { dlq: 11 }, {}, 1],
    ['one error', 'WARNING', { brokerErrors: 1 }],
    ['five', 'WARNING', { brokerErrors: 5 }],
    ['six', 'CRITICAL', { brokerErrors: 6 }],
    ['100 ms', '', { sends: 10, sendSeconds: 1 }],
    ['101 ms', 'WARNING', { sends: 10, sendSeconds: 1.01 }],
    ['500 ms', 'WARNING', { sends: 20, sendSeconds: 10 }],
    ['501 ms', 'CRITICAL', { sends: 20, sendSeconds: 10.02 }],
    ['nine events of an hour', '', { sends: 9, sendSeconds: 32_400 }],
    ['1000 wait', '', {}, { totalPending: 1_000 }],
    ['1001 wait', 'WARNING', {}, { totalPending: 1_001 }],
    ['three failures in a row', '', {}, { consecutiveFailures: 3 }],
    ['four', 'WARNING', {}, { consecutiveFailures: 4 }],
    ['60 s without a success', '', {}, { totalPending: 1, timeSinceLastSuccessMs: 60_000 }],
    ['60.001 s', 'WARNING', {}, { totalPending: 1, timeSinceLastSuccessMs: 60_001 }],
    ['hours, where nothing waits', '', {}, { timeSinceLastSuccessMs: 9_999_999 }],
  ];
  for (const [title, state, ...given] of rows)
    it(`${title}: ${state || 'none'}`, async () => assert.equal(await states(...given), state));

  it('a local backup that cannot be used is a WARNING with its reason, and nothing else of it is', async () => {
    for (const problem of [undefined, null])
      assert.deepEqual(await measuredHealth({ backupProblem: () => problem }), { state: 'HEALTHY' });
    assert.deepEqual(
      await measuredHealth({ backupProblem: () => 'the backup folder "x" is not used: why' }),
      {
        state: 'WARNING',
        findings: ['WARNING: the next outage loses events: the backup folder "x" is not used: why'],
      },
    );
  });

  it('say what was measured, which one it is and what to do, the worst first', async () => {
    const lines = await found({ published: 98, failed: 2, dlq: 1, brokerErrors: 6 });
    assert.match(lines[0] ?? '', /^CRITICAL: 6 sends failed in the last five minutes, over 5: see the log/);
    assert.match(lines[1] ?? '', /^WARNING: 98 % of the events .* under 99 %: see svc_events_failed_total/);
    assert.match(lines[2] ?? '', /^WARNING: 1 dead letters .*: npx --no svc dlq list/);
  });
});

describe('counts of the last five minutes', () => {
  const recentMs = 300_000;
  const clock = clockOfEach();
  const watch = (totals: () => Totals) =>
    watchHealth({
      ...{ probe: async () => ({ clusterId: 'c', nodeCount: 1 }), totals, sample: totals },
      known: () => ({ brokerProducerInitialized: true, topic: 't', dlqTopic: null }),
    });

  it('are what came within them, whenever it came, give or take ten seconds', async () => {
    const times = fc.array(fc.nat(600_000), { maxLength: 50 });
    await fc.assert(
      fc.asyncProperty(times, fc.nat(600_000), async (times, askedMs) => {
        clock.reset();
        let dlq = 0;
        const { health, close } = watch(() => ({ ...none, dlq }));
        for (const atMs of times) setTimeout(() => dlq++, atMs);
        clock.tick(askedMs);
        const [finding = '0'] = (await health()).details.findings ?? [];
        const count = Number(/\d+/.exec(finding)?.[0]);
        const came = (sinceMs: number) => times.filter((atMs) => atMs > sinceMs && atMs <= askedMs).length;
        const least = came(askedMs - recentMs);
        assert.ok(
          count >= least && count <= came(askedMs - recentMs - 10_001),
          `${count}, at least ${least}`,
        );
        close();
      }),
      { numRuns: 200 },
    );
  });

  it('forget an outage when it is five minutes ago, and health says so', async () => {
    const totals = { ...none, published: 1_000_000 };
    const { health, close } = watch(() => ({ ...totals }));
    assert.equal((await health()).details.state, 'HEALTHY');
    totals.failed += 20;
    totals.dlq += 20;
    clock.tick(30_000);
    const { status, details } = await health();
    assert.deepEqual([status, details.state, details.findings?.length], ['UP', 'CRITICAL', 2]);
    clock.tick(recentMs);
    const after = (await health()).details;
    assert.deepEqual([after.state, after.findings], ['HEALTHY', undefined]);
    close();
  });
});
