import type { Config } from '../../src/config/config.ts';
import { createEventIds, type WorkerIdLease } from '../../src/envelope/ids.ts';

const noLease: WorkerIdLease = { start() {}, async close() {} };

/** The event ids of a process whose events go to Kafka. `lease`: shares worker ids with other processes. */
export function eventIds(
  idGenerator: Readonly<Record<string, unknown>>,
  lease = noLease,
): ReturnType<typeof createEventIds> {
  const config = {
    broker: { client: 'kafkajs' },
    idGenerator: { type: 'snowflake', lease: 'auto', ...idGenerator },
  };
  return createEventIds(config as unknown as Config, () => lease);
}
