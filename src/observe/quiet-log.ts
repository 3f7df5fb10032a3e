import type { Clock } from '../ground/clock.ts';
import type { LogFields, Logger, LogLines } from './logger.ts';

/** At most one line in this time for one key, so that an outage does not fill the disk with log lines. */
export const quietMs = 10_000;
/** Keys that are remembered, for brokers name them, too; what comes beyond them shares one. */
const maxKeys = 100;

export interface QuietLogOptions {
  /** Default: error. */
  readonly level?: 'warn' | 'error';
  /** Default: `quietMs`. */
  readonly intervalMs?: number;
  /** The next line of a key says how many were left out: `andBefore`. Default: true. */
  readonly saysLeftOut?: boolean;
}

export type QuietLog = (key: string, message: string, fields?: LogFields | LogLines) => void;

/** Lines for what can happen at every call. */
export function createQuietLog(
  logger: Logger,
  clock: Clock,
  { level = 'error', intervalMs = quietMs, saysLeftOut = true }: QuietLogOptions = {},
): QuietLog {
  const lines = new Map<string, { saidAtMs: number; leftOut: number }>();
  return (key, message, fields) => {
    const known = lines.has(key) || lines.size < maxKeys ? key : '';
    const line = lines.get(known);
    const now = clock.monotonic();
    if (line !== undefined && now - line.saidAtMs < intervalMs) {
      line.leftOut++;
      return;
    }
    const leftOut = saysLeftOut ? (line?.leftOut ?? 0) : 0;
    lines.set(known, { saidAtMs: now, leftOut: 0 });
    logger[level](message, leftOut > 0 ? { ...fields, andBefore: leftOut } : fields);
  };
}
