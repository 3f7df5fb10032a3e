import { appendFileSync } from 'node:fs';
import { threadId } from 'node:worker_threads';
import type { Config } from '../../../src/config/config.ts';
import { createEventIds } from '../../../src/envelope/ids.ts';
import { consoleLogger, useLogger } from '../../../src/observe/logger.ts';
import { openWorkerIdLease } from '../../../src/start/adapters.ts';

/**
 * A process that makes ids and nothing else, as many a second as it is told: each is in its log before the next turn, so that
 * a kill loses none. A line: the id, how its worker id was come by.
 */
interface Orders {
  readonly brokers: readonly string[];
  readonly client: 'kafkajs' | 'platformatic';
  readonly group: string;
  readonly folder: string;
  readonly log: string;
  readonly idsPerSecond: number;
}

const { brokers, client, group, folder, log, idsPerSecond } = JSON.parse(process.argv[2] ?? '') as Orders;
const config = {
  broker: {
    ...{ client, bootstrapServers: brokers, clientId: `fleet-${process.pid}-${threadId}`, topic: 'events' },
    ...{ requestTimeoutMs: 5_000, connectionTimeoutMs: 3_000, acks: 'all', compression: 'none' },
    ...{ tls: { enabled: false }, sasl: {}, file: { path: folder } },
  },
  idGenerator: { type: 'snowflake', workerId: undefined, leasePath: folder, lease: 'auto', group },
} as unknown as Config;

const tickMs = 100;
useLogger(consoleLogger('warn'));
const ids = createEventIds(config, () => openWorkerIdLease(config));
ids.lease();
let owed = 0;
const timer = setInterval(() => {
  owed += (idsPerSecond * tickMs) / 1000;
  let lines = '';
  for (; owed >= 1; owed--) {
    const source = ids.worker()?.source;
    const id = ids.next();
    // Between the two a millisecond may have passed, and with it the lease.
    lines += `${id} ${ids.worker()?.source === source ? source : '?'}\n`;
  }
  appendFileSync(log, lines);
}, tickMs);
process.once('SIGTERM', () => {
  clearInterval(timer);
  void ids.close(2_000);
});
