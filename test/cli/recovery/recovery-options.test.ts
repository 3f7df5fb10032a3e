import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { WrongUse } from '../../../src/cli/terminal.ts';
import { backupEvent, backupIn } from '../../adapters/local-backup/backup-folder.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { svcHere } from '../support/svc-here.ts';

const cwd = temporaryFolder('recovery-options');
const list = (...args: string[]) => svcHere(['backup', 'list', '--dir', cwd, '--json', ...args], { cwd });

async function store(storedAt: number, folder = cwd): Promise<void> {
  const backup = backupIn(folder, { format: 'event' });
  await backup.store(backupEvent(String(storedAt), { backedUpAt: storedAt }));
  await backup.close(1_000);
}

async function accepts(args: string[], storedAt: number): Promise<boolean> {
  const { events } = JSON.parse((await list(...args)).stdout);
  return events.some(({ eventId }: { eventId: string }) => eventId === String(storedAt));
}

describe('options of a recovery', () => {
  const [march, leapDay] = [Date.UTC(2026, 2, 4), Date.UTC(2024, 1, 29)];
  let early = 0;
  let late = 0;
  before(async () => {
    // Other suites of this process may take minutes before.
    [early, late] = [Date.now() - 91 * 60_000, Date.now() - 89 * 60_000];
    const at = Date.UTC(2026, 2, 4, 10);
    for (const each of [at, at - 1, march, march - 1, leapDay, early, late]) await store(each);
    assert.equal(JSON.parse((await list()).stdout).matched, 7);
  });

  it('--since is from a time on, --until before it', async () => {
    const at = Date.UTC(2026, 2, 4, 10);
    for (const text of ['2026-03-04T10:00:00Z', '2026-03-04T10:00:00.000Z', '2026-03-04T11:00+01:00']) {
      const since = ['--since', text];
      assert.deepEqual([await accepts(since, at), await accepts(since, at - 1)], [true, false]);
      const until = ['--until', text];
      assert.deepEqual([await accepts(until, at), await accepts(until, at - 1)], [false, true]);
    }
    assert.equal(await accepts(['--since', '2026-03-04'], march), true);
    assert.equal(await accepts(['--since', '2026-03-04'], march - 1), false);
    assert.equal(await accepts(['--since', '2024-02-29'], leapDay), true);
  });

  it('how long ago is counted from now', async () => {
    assert.equal(await accepts(['--since', '90m'], late), true);
    assert.equal(await accepts(['--since', '90m'], early), false);
  });

  for (const text of [
    '90',
    '2',
    'soon',
    '',
    '2026',
    'March 4, 2026',
    '2026-03-04T10:00',
    '2026-13-01',
    '2026-02-29',
    '2026-02-31T10:00:00Z',
    '-5m',
  ])
    it(`"${text}" is no time`, async () => {
      await assert.rejects(list(`--since=${text}`), WrongUse);
    });

  it('a time that ends before it begins is said, not answered with nothing', async () => {
    await assert.rejects(list('--since', '1h', '--until', '2h'), /not before --until/);
    assert.equal((await list('--since', '2h', '--until', '1h')).code, 0);
  });

  for (const rate of ['0', '-1', '1.5', 'fast', 'Infinity', 'NaN', ''])
    it(`--rate ${rate} is refused`, async () => {
      await assert.rejects(list(`--rate=${rate}`), /--rate takes events a second/);
    });

  it('--rate takes 1 and more: one event a second, and no limit without it', async function () {
    this.timeout(30_000);
    const own = temporaryFolder('recovery-rate');
    const broker = { client: 'file', topic: 'orders' };
    writeFileSync(join(own, 'svc.config.json'), JSON.stringify({ svc: { broker } }));
    const tookMs = async (count: number, ...args: string[]): Promise<number> => {
      for (let each = 0; each < count; each++) await store(march + each, join(own, 'dlq-backup'));
      const beganMs = performance.now();
      const { code, stderr } = await svcHere(['backup', 'restore', ...args], { cwd: own });
      assert.equal(code, 0, stderr);
      assert.match(stderr, new RegExp(`: ${count} of ${count} events sent to their topics$`, 'm'));
      return performance.now() - beganMs;
    };
    assert.ok((await tookMs(1, '--rate', '1')) >= 950);
    // They would take 20 s at one event a second.
    assert.ok((await tookMs(20)) < 15_000);
  });
});
