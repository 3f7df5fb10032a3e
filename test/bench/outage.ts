import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Bench } from '../../scripts/bench.ts';
import { createLocalSource } from '../../src/adapters/local-backup/source/local-source.ts';
import { startOwnKafka } from '../support/kafka.ts';
import type { AppSetup, AppState } from './outage-app.ts';

const perSecond = 2_000;
const secondsBefore = 10;
/** The breaker opens, the first files are written, and the heap finds its size. */
const warmUpSeconds = 60;

/** An application at 2,000 events a second whose only broker is killed: memory, and whether the backup keeps up. */
export const bench: Bench = async (progress, args = []) => {
  const { values } = parseArgs({ args: [...args], options: { minutes: { type: 'string' } } });
  const minutes = Number(values.minutes ?? 10);
  const folder = mkdtempSync(join(tmpdir(), 'svc-outage-'));
  const backupFolder = join(folder, 'dlq-backup');
  const kafka = await startOwnKafka();
  await kafka.createTopic('orders', { partitions: 6 });
  const setup: AppSetup = { brokers: kafka.brokers, backupFolder, perSecond };
  const app = fork(join(import.meta.dirname, 'outage-app.ts'), [JSON.stringify(setup)]);
  const states: AppState[] = [];
  app.on('message', (state: AppState) => states.push(state));
  const ended = new Promise<void>((resolve) => app.once('exit', () => resolve()));
  const latest = (): AppState => {
    const state = states.at(-1);
    if (state === undefined || app.exitCode !== null) throw new Error('the application has ended');
    return state;
  };
  try {
    await sleep(secondsBefore * 1000);
    const before = latest();
    progress(`before: ${said(before)}`);
    await kafka.kill();
    const from = states.length;
    for (let minute = 1; minute <= minutes; minute++) {
      await sleep(60_000);
      progress(`minute ${minute} without brokers: ${said(latest())}`);
    }
    const away = states.slice(from);
    app.send('end');
    await ended;
    const last = states.at(-1) as AppState;
    progress(`ended: ${said(last)}`);
    const published = await countAfterRestart(kafka);
    const stored = await countEvents(backupFolder);

    const calm = away.slice(warmUpSeconds);
    const settled = calm.length > 0 ? calm : away;
    const rss = settled.map(({ rssMb }) => rssMb);
    const [first, end] = [settled[0] as AppState, settled.at(-1) as AppState];
    const seconds = settled.length - 1;
    const written = end.calls - end.pending - (first.calls - first.pending);
    return [
      { case: 'rss-before', value: Math.round(before.rssMb), unit: 'MB' },
      { case: 'rss-most', value: Math.round(Math.max(...rss)), unit: 'MB' },
      { case: 'rss-range', value: Math.round(Math.max(...rss) - Math.min(...rss)), unit: 'MB' },
      { case: 'calls', value: Math.round((end.calls - first.calls) / seconds), unit: 'events/s' },
      {
        case: 'backup',
        value: Math.round(written / seconds),
        unit: 'events/s',
        against: 'calls',
        ratio: Number((written / (end.calls - first.calls)).toFixed(3)),
      },
      { case: 'backup-behind', value: Math.max(...settled.map(({ pending }) => pending)), unit: 'events' },
      {
        case: 'cpu',
        value: Number((((end.cpuSeconds - first.cpuSeconds) * 1e6) / (end.calls - first.calls)).toFixed(1)),
        unit: 'us/event',
      },
      { case: 'backup-files', value: last.files, unit: 'files' },
      { case: 'backup-events', value: stored, unit: 'events' },
      { case: 'missing', value: last.calls - stored - published, unit: 'events' },
    ];
  } finally {
    app.kill('SIGKILL');
    await kafka.stop();
    rmSync(folder, { recursive: true, force: true });
  }
};

function said({ calls, pending, files, rssMb }: AppState): string {
  return `${calls} calls, ${pending} without an outcome, ${files} files, ${Math.round(rssMb)} MB`;
}

/** What the broker had taken before it was killed. Below 0 missing: stored twice, for its last answers were lost. */
async function countAfterRestart(kafka: Awaited<ReturnType<typeof startOwnKafka>>): Promise<number> {
  await kafka.restart();
  return kafka.count('orders');
}

async function countEvents(directory: string): Promise<number> {
  const source = createLocalSource({ directory, now: Date.now });
  await source.open(false);
  const count = (await source.count()) ?? 0;
  await source.close();
  return count;
}
