import { readdirSync } from 'node:fs';
import { publishEvent } from '../../src/capture/declare/publish-event.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import { consoleLogger } from '../../src/observe/logger.ts';
import { start } from '../../src/start/start.ts';
import { payload } from './payload.ts';

// An application under an even load. It says every second how it is, until it is told to end.

export interface AppSetup {
  readonly brokers: readonly string[];
  readonly backupFolder: string;
  readonly perSecond: number;
}

export interface AppState {
  readonly calls: number;
  /** Calls whose event has no outcome yet. */
  readonly pending: number;
  readonly files: number;
  readonly rssMb: number;
  /** CPU of the process so far, in seconds. */
  readonly cpuSeconds: number;
}

const { brokers, backupFolder, perSecond } = JSON.parse(process.argv[2] as string) as AppSetup;
const { config, problems } = loadConfig({
  env: {},
  code: {
    svc: {
      service: { name: 'orders', version: '1.4.0' },
      broker: {
        client: 'kafkajs',
        bootstrapServers: brokers,
        topic: 'orders',
        asyncMode: true,
        dlqBackupPath: backupFolder,
      },
    },
    management: { server: { port: 0 } },
  },
});
if (problems.length > 0) throw new Error(problems.map(({ message }) => message).join('\n'));
const service = start(config, consoleLogger('error'));
const createOrder = publishEvent({ eventType: 'ORDER_CREATED' }, async () => payload);

const tickMs = 10;
const started = performance.now();
let calls = 0;
const load = setInterval(() => {
  const due = ((performance.now() - started) / 1000) * perSecond;
  for (; calls < due; calls++) void createOrder();
}, tickMs);
const report = setInterval(() => process.send?.(state()), 1_000);

function state(): AppState {
  const { user, system } = process.cpuUsage();
  return {
    calls,
    pending: service.pending(),
    files: filesIn(backupFolder),
    rssMb: process.memoryUsage.rss() / 1024 / 1024,
    cpuSeconds: (user + system) / 1e6,
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
