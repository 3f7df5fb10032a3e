import type { Command } from 'commander';
import { parsePast } from '../../ground/instant.ts';
import { acceptedBy, type StoredEvent } from '../../start/commands/recovery.ts';
import { WrongUse } from '../wrong-use.ts';

/** What `svc dlq` and `svc backup` are given. */
export interface RecoveryOptions {
  readonly config?: string;
  readonly broker?: string;
  readonly type?: readonly string[];
  /** Only events that are meant for these. */
  readonly topic?: readonly string[];
  readonly since?: number;
  readonly until?: number;
  readonly to?: string;
  /** Events a second; default: no limit. */
  readonly rate?: number;
  readonly dryRun?: true;
  readonly json?: true;
  readonly dlqTopic?: string;
  readonly group?: string;
  readonly dir?: string;
  readonly file?: string;
  readonly s3?: true;
}

/** Which events are meant. */
export function withFilters(command: Command): Command {
  return command
    .option('--type <event type>', 'only these; may be given several times', repeated)
    .option('--topic <topic>', 'only events meant for this topic; may be given several times', repeated)
    .option('--since <time>', sinceText, timeOf('since'))
    .option('--until <time>', 'only events stored before', timeOf('until'));
}

/** What both understand. */
export function withRecoveryOptions(command: Command): Command {
  return withFilters(command)
    .option('--to <topic>', 'where events go whose own topic is not known')
    .option('--rate <number>', 'events a second (default: as fast as the broker takes them)', rateOf)
    .option('--dry-run', 'list what would be sent, send nothing')
    .option('--broker <host:port,...>', 'instead of svc.broker.bootstrap-servers');
}

export const sinceText = 'only events stored from then on: 2026-03-04T10:00:00Z, or 90m for that long ago';

/** @throws WrongUse */
export function acceptOf(options: RecoveryOptions): (event: StoredEvent) => boolean {
  const { since, until } = options;
  if (since !== undefined && until !== undefined && since >= until)
    throw new WrongUse('--since is not before --until');
  return acceptedBy({ types: options.type, topics: options.topic, since, until });
}

/** Of an option that may be given several times. */
export const repeated = (text: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  text,
];

/** Of an option that takes a time, or `90m`: that long ago. */
export function timeOf(name: string): (text: string) => number {
  return (text) => {
    const time = parsePast(text, Date.now());
    if (name === 'since' && time !== undefined && time > Date.now())
      throw new WrongUse('--since is in the future: nothing is stored then');
    if (time !== undefined) return time;
    throw new WrongUse(
      `--${name} takes a time such as 2026-03-04T10:00:00Z, or how long ago, such as 90m or 2d`,
    );
  };
}

function rateOf(text: string): number {
  const rate = Number(text);
  if (!Number.isInteger(rate) || rate < 1)
    throw new WrongUse('--rate takes events a second, an integer from 1');
  return rate;
}
