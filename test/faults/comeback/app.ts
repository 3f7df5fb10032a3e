import { subscribe } from 'node:diagnostics_channel';
import { loadConfig } from '../../../src/config/read/load.ts';
import { type Logger, useLogger } from '../../../src/observe/logger.ts';
import { start } from '../../../src/start/start.ts';

// An application that publishes evenly, and says what becomes of it: a message at each change of the outcome, and when there
// was none for a second; a message for each line of the log, and how many connections it has tried.

export interface AppSetup {
  readonly client: string;
  readonly brokers: readonly string[];
  readonly topic: string;
  readonly backupFolder: string;
  readonly perSecond: number;
}

export interface AppSaid {
  readonly at: number;
  readonly what: 'outcome' | 'log' | 'connections';
  readonly text: string;
}

const setup = JSON.parse(process.argv[2] as string) as AppSetup;
const say = (what: AppSaid['what'], text: string): void =>
  void (process.connected && process.send?.({ at: Date.now(), what, text } satisfies AppSaid, () => {}));

let connections = 0;
subscribe('net.client.socket', () => {
  connections++;
});
const line =
  (level: string): Logger['info'] =>
  (message, fields) =>
    say('log', `${level}: ${message} ${fields === undefined ? '' : JSON.stringify(fields)}`);
const { config, problems } = loadConfig({
  env: {},
  code: {
    svc: {
      service: { name: 'orders', version: '1' },
      broker: {
        ...{ client: setup.client, bootstrapServers: setup.brokers, topic: setup.topic },
        ...{ asyncMode: true, dlqBackupPath: setup.backupFolder },
      },
    },
    management: { server: { port: 0 } },
  },
});
if (problems.length > 0) throw new Error(problems.map(({ message }) => message).join('\n'));
useLogger({ debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') });
const service = start(config);

let last = '';
let lastAtMs = performance.now();
const started = performance.now();
let calls = 0;
setInterval(() => {
  const due = ((performance.now() - started) / 1000) * setup.perSecond;
  for (; calls < due; calls++) {
    const key = `k${calls % 60}`;
    service.producer.publish({ call: calls }, { eventType: 'ORDERED', key }).then(
      ({ outcome }) => {
        const nowMs = performance.now();
        if (outcome !== last || nowMs - lastAtMs >= 1_000) say('outcome', outcome);
        last = outcome;
        lastAtMs = nowMs;
      },
      () => {},
    );
  }
}, 10);
setInterval(() => say('connections', String(connections)), 1_000);
process.once('disconnect', () => process.exit());
