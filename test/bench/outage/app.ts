import { readdirSync } from 'node:fs';
import { publishEvent } from '../../../src/capture/declare/publish-event.ts';
import { loadConfig } from '../../../src/config/read/load.ts';
import { type Logger, useLogger } from '../../../src/observe/logger.ts';
import { start } from '../../../src/start/start.ts';
import type { AppSetup } from '../../faults/comeback/app.ts';
import { payload } from '../payload.ts';

// An application under an even load. It says how it is, until it is told to end.

export interface AppState {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly calls: number;
  /** Calls whose event has no outcome yet. */
  readonly pending: number;
  /** In the backup folder. */
  readonly files: number;
  readonly rssMb: number;
  /** CPU of the process so far, in seconds. */
  readonly cpuSeconds: number;
  /** Of some calls since the last state: milliseconds from when they were due until they had returned. */
  readonly callMs: readonly number[];
  /** `behind`: events of the topic go to the backup behind others. */
  readonly way: 'direct' | 'behind';
  /** Since when. */
  readonly waySince: number;
}

const keyCount = 1_000;
const tickMs = 1;
const reportMs = 250;
/** One call in so many is timed. */
const timedShare = 16;
/** What is late is made up for in steps: a server does not take all that waits in one turn either. */
const maxAtOnce = 200;

const setup = JSON.parse(process.argv[2] as string) as AppSetup;
const { client, brokers, topic, backupFolder, perSecond } = setup;
const { config, problems } = loadConfig({
  env: {},
  code: {
    svc: {
      service: { name: 'orders', version: '1.4.0' },
      broker: { client, bootstrapServers: brokers, topic, asyncMode: true, dlqBackupPath: backupFolder },
    },
    management: { server: { port: 0 } },
  },
});
if (problems.length > 0) throw new Error(problems.map(({ message }) => message).join('\n'));

let way: AppState['way'] = 'direct';
let waySince = Date.now();
function heed(message: string): void {
  const isBehind = message.includes('new events wait behind earlier');
  if (!isBehind && !message.includes('events go to the topic again')) return;
  way = isBehind ? 'behind' : 'direct';
  waySince = Date.now();
}
const logger: Logger = { debug() {}, info: heed, warn: heed, error: (message) => console.error(message) };
useLogger(logger);
const service = start(config);
const createOrder = publishEvent(
  { eventType: 'ORDER_CREATED', key: ({ args: [call] }) => `k${call % keyCount}` },
  async (call: number) => ({ call, ...payload }),
);

const startedMs = performance.now();
let calls = 0;
let callMs: number[] = [];
const load = setInterval(() => {
  const due = Math.min(calls + maxAtOnce, ((performance.now() - startedMs) / 1000) * perSecond);
  for (; calls < due; calls++) {
    const returned = createOrder(calls);
    if (calls % timedShare > 0) continue;
    const dueMs = startedMs + (calls / perSecond) * 1000;
    void returned.then(() => callMs.push(performance.now() - dueMs));
  }
}, tickMs);
const report = setInterval(() => process.send?.(state()), reportMs);

function state(): AppState {
  const { user, system } = process.cpuUsage();
  const timed = callMs;
  callMs = [];
  return {
    ...{ at: Date.now(), calls, pending: service.pending(), files: filesIn(backupFolder), callMs: timed },
    rssMb: process.memoryUsage.rss() / 1024 / 1024,
    cpuSeconds: (user + system) / 1e6,
    ...{ way, waySince },
  };
}

function filesIn(folder: string): number {
  try {
    return readdirSync(folder).filter((name) => /\.json$|^segment-/.test(name)).length;
  } catch {
    return 0;
  }
}

process.once('message', async () => {
  clearInterval(load);
  clearInterval(report);
  await service.stop(30_000);
  process.send?.(state(), () => process.disconnect());
});
