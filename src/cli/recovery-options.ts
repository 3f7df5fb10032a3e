import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { parsePast } from '../ground/instant.ts';
import type { StoredEvent } from '../start/commands/recovery.ts';

/** What `svc dlq` and `svc backup` understand, beside the options of their own. */
export const recoveryOptions = {
  config: { type: 'string' },
  broker: { type: 'string' },
  type: { type: 'string', multiple: true },
  topic: { type: 'string', multiple: true },
  since: { type: 'string' },
  until: { type: 'string' },
  to: { type: 'string' },
  rate: { type: 'string' },
  'dry-run': { type: 'boolean' },
  json: { type: 'boolean' },
} as const satisfies ParseArgsOptionsConfig;

export interface RecoveryOptions {
  readonly config: string | undefined;
  readonly broker: string | undefined;
  readonly to: string | undefined;
  /** Only events that are meant for these. */
  readonly topics: readonly string[];
  readonly ratePerSecond: number;
  readonly isDryRun: boolean;
  readonly isJson: boolean;
  readonly accept: (event: StoredEvent) => boolean;
  /** Of the command's own options. */
  readonly own: Readonly<Record<string, string | undefined>>;
}

/** Somebody called the command wrongly: exit code 2. */
export class WrongUse extends Error {}

/** @throws WrongUse */
export function parseRecoveryOptions(args: readonly string[], ownNames: readonly string[]): RecoveryOptions {
  const own = Object.fromEntries(ownNames.map((name) => [name, { type: 'string' as const }]));
  let values: Record<string, unknown>;
  try {
    values = parseArgs({ args: [...args], options: { ...recoveryOptions, ...own } }).values;
  } catch (error) {
    throw new WrongUse((error as Error).message);
  }
  const text = (name: string): string | undefined => values[name] as string | undefined;
  const since = timeOf('since', text('since'));
  const until = timeOf('until', text('until'));
  if (since !== undefined && until !== undefined && since >= until)
    throw new WrongUse('--since is not before --until');
  const types = values.type as string[] | undefined;
  const topics = values.topic as string[] | undefined;
  return {
    config: text('config'),
    broker: text('broker'),
    to: text('to'),
    topics: topics ?? [],
    ratePerSecond: rateOf(text('rate')),
    isDryRun: values['dry-run'] === true,
    isJson: values.json === true,
    accept: ({ eventType, topic, storedAt }) =>
      (types === undefined || types.includes(eventType)) &&
      (topics === undefined || (topic !== undefined && topics.includes(topic))) &&
      (since === undefined || storedAt >= since) &&
      (until === undefined || storedAt < until),
    own: Object.fromEntries(ownNames.map((name) => [name, text(name)])),
  };
}

/** A time, or `90m`: that long ago. */
export function timeOf(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const time = parsePast(text, Date.now());
  if (time === undefined) {
    throw new WrongUse(
      `--${name} takes a time such as 2026-03-04T10:00:00Z, or how long ago, such as 90m or 2d`,
    );
  }
  return time;
}

function rateOf(text: string | undefined): number {
  if (text === undefined) return 0;
  const rate = Number(text);
  if (!Number.isInteger(rate) || rate < 1)
    throw new WrongUse('--rate takes events a second, an integer from 1');
  return rate;
}
