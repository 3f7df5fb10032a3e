import { systemClock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import { createQuietLog } from '../../observe/quiet-log.ts';
import type { SqlRow } from './statement.ts';

/** Who holds a lock, of the columns pid, name, address, state and seconds, each of which may be null but the first. */
export function blockerText(row: SqlRow | undefined): string | undefined {
  if (row === undefined) return undefined;
  const { pid, name, address, state, seconds } = row;
  const about = [name, address, state].filter((each) => each !== null && each !== undefined && each !== '');
  const since = seconds === null || seconds === undefined ? '' : ` for ${seconds} s`;
  return about.length === 0 ? `process ${pid}` : `process ${pid} (${about.join(', ')}${since})`;
}

export function sayBlocked(database: string, logger: Logger | undefined): (blocker: string) => void {
  if (logger === undefined) return () => {};
  const say = createQuietLog(logger, systemClock);
  return (blocker) =>
    say('blocked', `outbox: a statement waits for a lock in ${database}, which ${blocker} holds`);
}
