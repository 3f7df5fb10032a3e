import type { Clock } from './clock.ts';
import type { Config } from './config/config.ts';
import { createSnowflake } from './envelope/snowflake.ts';
import { createUuidV7 } from './envelope/uuid-v7.ts';
import { leaseWorkerId } from './envelope/worker-lease.ts';
import type { Logger } from './observe/logger.ts';

/** Where event ids come from. */
export interface EventIds {
  next(): string;
  /** Gives back what the process leased for them. */
  release(): void;
}

export function startIds({ idGenerator }: Config, clock: Clock, logger: Logger): EventIds {
  if (idGenerator.type === 'uuidv7') return { ...createUuidV7({ clock }), release: () => {} };
  const { workerId, leasePath: directory } = idGenerator;
  const worker = leaseWorkerId({ workerId, directory, logger });
  const { next } = createSnowflake({ workerId: worker.workerId, clock });
  return { next, release: worker.release };
}
