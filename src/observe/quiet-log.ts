import type { Clock } from '../ground/clock.ts';
import type { LogFields, Logger } from './logger.ts';

/** At most one line in this time for one key, so that an outage does not fill the disk with log lines. */
export const quietMs = 10_000;
/** Keys that are remembered; what comes beyond them shares one. */
const maxKeys = 100;

export type QuietLog = (key: string, message: string, fields?: LogFields) => void;

/** Error lines for what can happen at every call. The next line of a key says how many were left out: `andBefore`. */
export function createQuietLog(logger: Logger, clock: Clock): QuietLog {
  const lines = new Map<string, { saidAtMs: number; leftOut: number }>();
  return (key, message, fields) => {
    const known = lines.has(key) || lines.size < maxKeys ? key : '';
    const line = lines.get(known);
    const now = clock.monotonic();
    if (line !== undefined && now - line.saidAtMs < quietMs) {
      line.leftOut++;
      return;
    }
    const leftOut = line?.leftOut ?? 0;
    lines.set(known, { saidAtMs: now, leftOut: 0 });
    logger.error(message, leftOut > 0 ? { ...fields, andBefore: leftOut } : fields);
  };
}
