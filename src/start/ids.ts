import type { Config } from '../config/config.ts';
import { createLeasedIds, type WorkerId } from '../envelope/leased-ids.ts';
import { createUuidV7 } from '../envelope/uuid-v7.ts';
import type { WorkerIdLease } from '../envelope/worker-id-lease.ts';
import { leaseWorkerId } from '../envelope/worker-lease.ts';
import type { Clock } from '../ground/clock.ts';
import { isolate } from '../observe/isolate.ts';
import type { Logger } from '../observe/logger.ts';
import { openWorkerIdLease } from './adapters.ts';
import { brokerSettingsOf, goesToKafka } from './settings.ts';

/** Where event ids come from. */
export interface EventIds {
  next(): string;
  /** Why there are none at the moment: the clock. A worker id there always is, that of the host or a derived one. */
  problem(): string | undefined;
  /** What the ids of this moment carry; `undefined` where they have none. */
  worker(): WorkerId | undefined;
  /** Asks for a worker id that no other process has, on whatever host. Ids do not wait for it. */
  lease(): void;
  /** Gives back what the process leased for them. */
  close(deadlineMs: number): Promise<void>;
}

/** A process that is over by then is not worth it that all the others hear of it. */
const leaseAfterMs = 1_000;

export function startIds(config: Config, clock: Clock, logger: Logger): EventIds {
  if (config.idGenerator.type === 'uuidv7')
    return {
      ...createUuidV7({ clock }),
      ...{ problem: () => undefined, worker: () => undefined, lease: () => {}, close: async () => {} },
    };
  const { workerId, leasePath: directory } = config.idGenerator;
  const host = leaseWorkerId({ workerId, directory, logger });
  const ids = createLeasedIds({ own: ownOf(config, host), source: 'kafka', clock });
  let lease: WorkerIdLease | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  function start(): void {
    lease = openWorkerIdLease(
      config.broker.client,
      brokerSettingsOf(config, logger),
      config.idGenerator.group,
    );
    void isolate(async () => lease?.start(ids.grant));
  }

  return {
    next: ids.next,
    worker: ids.worker,
    problem() {
      try {
        ids.next();
        return undefined;
      } catch (error) {
        return `Events are refused: ${(error as Error).message}`;
      }
    },
    lease() {
      // A broker that hung may answer after the end.
      if (!isClosed && isLeasedInKafka(config)) timer = setTimeout(start, leaseAfterMs).unref();
    },
    async close(deadlineMs) {
      isClosed = true;
      clearTimeout(timer);
      await lease?.close(deadlineMs);
      host.release();
    },
  };
}

function ownOf(
  { idGenerator }: Config,
  { workerId, exclusive }: { workerId: number; exclusive: boolean },
): WorkerId {
  if (idGenerator.workerId !== undefined) return { workerId, source: 'configured' };
  return { workerId, source: exclusive ? 'host' : 'derived' };
}

/** Whether a worker id is asked for in Kafka. */
export function isLeasedInKafka(config: Config): boolean {
  const { idGenerator } = config;
  return goesToKafka(config) && idGenerator.workerId === undefined && idGenerator.lease !== 'host';
}
