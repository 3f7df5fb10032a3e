import { randomUUID } from 'node:crypto';
import type { Config } from '../../config/config.ts';
import { within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import type { DeadLetterTopic, RecoveryAsk, RecoveryControls, RecoveryRun } from '../../manage/controls.ts';
import { type Logger, printable } from '../../observe/logger.ts';
import { openTopicTail } from '../adapters.ts';
import { brokerSettingsOf, goesToKafka } from '../settings.ts';
import { createNewestDeadLetters } from '../tiers/newest-dead-letters.ts';
import { recoveryGroup } from '../tiers/start-tiers.ts';
import { createTopicRefusal } from './inspect.ts';
import type { RecoverReport, RecoveryPlace, RecoveryResult } from './recovery.ts';

interface RecoveryRunsOptions {
  readonly config: Config;
  readonly logger: Logger;
  /** As the log names it: `dead letters`, `backup`. */
  readonly name: string;
  /** Why there is nothing to recover from, one line, or where it lies. */
  readonly placeOf: (ask: Pick<RecoveryAsk, 'from'>) => RecoveryPlace | string;
  /** What this process still writes there becomes readable. */
  readonly prepare?: () => Promise<void>;
}

interface RecoveryRuns extends RecoveryControls {
  isRunning(): boolean;
  /** Each run ends after the batch under way; what it has not sent is there the next time. */
  stop(deadlineMs: number): Promise<void>;
}

/** Recoveries in a process that has other things to do: they do not keep it alive. */
export function createRecoveryRuns(options: RecoveryRunsOptions): RecoveryRuns {
  const { config, logger, name } = options;
  const latest: { run: RecoveryRun | null; dryRun: RecoveryRun | null } = { run: null, dryRun: null };
  const inFlight = new Set<Promise<void>>();
  /** A process that was told to end may live on. */
  let stops = 0;

  async function work(place: RecoveryPlace, ask: RecoveryAsk, keep: (now: Partial<RecoveryRun>) => void) {
    const stopsBefore = stops;
    const { runRecovery, acceptedBy } = await import('./recovery.ts');
    const { types, topics, since, until, to, limit, rate = 0, dryRun } = ask;
    const deadLetters = [config.broker.dlqTopic];
    if (place.kind === 'local' && !dryRun) await options.prepare?.();
    return runRecovery(config, logger, {
      ...{ place, isSending: !dryRun, keepsAlive: false, fallbackTopic: to, ratePerSecond: rate, limit },
      accept: acceptedBy({ types, topics, since, until }),
      refusalOf: createTopicRefusal(config, [...(topics ?? []), to], deadLetters, '"topic":'),
      isStopped: () => stops > stopsBefore,
      onProgress: (report, total) => keep({ ...countsOf(report), total: total ?? null }),
    });
  }

  return {
    latest: () => latest,
    missing(ask) {
      const place = options.placeOf(ask);
      return typeof place === 'string' ? place : undefined;
    },
    start(ask, by) {
      const slot = ask.dryRun ? 'dryRun' : 'run';
      const place = options.placeOf(ask);
      if (latest[slot]?.state === 'RUNNING' || typeof place === 'string') return undefined;
      const begun = newRun(ask.dryRun);
      const keep = (now: Partial<RecoveryRun>): void => {
        latest[slot] = { ...(latest[slot] ?? begun), ...now };
      };
      latest[slot] = begun;
      const what = `${name}: ${ask.dryRun ? 'dry run' : 'recovery'} ${begun.id}, asked for by ${by}`;
      logger.info(`${what}, has begun`);
      const ending = work(place, ask, keep)
        .then(endOf, (error: unknown) => ({ state: 'FAILED' as const, error: lineOf(error) }))
        .then((end) => {
          keep({ ...end, endedAt: new Date().toISOString() });
          inFlight.delete(ending);
          const { state, matched, sent, failed, error } = latest[slot] ?? begun;
          const why = error === null ? '' : `: ${error}`;
          const counts = ask.dryRun ? `${matched} events match` : `${sent} of ${matched} events sent`;
          const line = `${what}: ${state}, ${counts}, ${failed} failed${why}`;
          logger[state === 'DONE' || state === 'LIMIT' ? 'info' : 'warn'](printable(line));
        });
      inFlight.add(ending);
      return begun;
    },
    isRunning: () => inFlight.size > 0,
    async stop(deadlineMs) {
      stops++;
      if (inFlight.size > 0) await within(deadlineMs, Promise.all(inFlight));
    },
  };
}

function newRun(dryRun: boolean): RecoveryRun {
  return {
    ...{ id: randomUUID(), state: 'RUNNING', dryRun, startedAt: new Date().toISOString(), endedAt: null },
    ...{ total: null, matched: 0, skipped: 0, sent: 0, failed: 0, unreadable: 0, problems: [], error: null },
  };
}

function countsOf(report: RecoverReport): Partial<RecoveryRun> {
  const { matched, skipped, sent, failed, unreadable, problems } = report;
  return {
    ...{ matched, skipped, sent, failed, unreadable: unreadable.length },
    problems: [...problems].map(([reason, events]) => ({ reason: printable(reason), events })),
  };
}

function endOf(result: RecoveryResult): Partial<RecoveryRun> {
  const counts = countsOf(result);
  const { stoppedBy, isInterrupted, isAtLimit } = result;
  if (stoppedBy !== undefined)
    return { ...counts, state: 'STOPPED', error: `the broker is away: ${printable(stoppedBy.message)}` };
  if (isInterrupted) return { ...counts, state: 'STOPPED', error: 'the process was about to end' };
  return { ...counts, state: isAtLimit ? 'LIMIT' : 'DONE' };
}

function lineOf(error: unknown): string {
  if (error instanceof SvcError) return printable(error.message);
  return (error as NodeJS.ErrnoException)?.code ?? (error instanceof Error ? error.name : 'unknown error');
}

/** Where dead letters lie, or why there are none to recover. */
export function deadLetterPlace(config: Config): RecoveryPlace | string {
  const { client, dlqTopic } = config.broker;
  if (dlqTopic === undefined)
    return 'There is no dead letter topic in this application: set svc.broker.dlq-topic.';
  if (client !== 'file' && !goesToKafka(config))
    return `svc reads dead letters from Kafka and from files; those of "${client}" are for the tools of that broker.`;
  return { kind: 'dlq', topic: dlqTopic, group: recoveryGroup };
}

/** The dead letter topic itself, for whoever asks what stands in it. */
export function deadLetterTopicOf(config: Config, logger: Logger): DeadLetterTopic {
  const place = deadLetterPlace(config);
  const { client, dlqTopic: topic = '' } = config.broker;
  return {
    missing: () => (typeof place === 'string' ? place : undefined),
    ...createNewestDeadLetters(topic, (fromMs) =>
      openTopicTail(client, { ...brokerSettingsOf(config, logger), topic, fromMs, untilMs: undefined }),
    ),
  };
}

/** Where the backup lies, or why there is none. */
export function backupPlace({ broker }: Config, { from }: Pick<RecoveryAsk, 'from'>): RecoveryPlace | string {
  const { backup, client } = broker;
  if (client === 'memory') return 'svc.broker.client: memory reaches no broker.';
  const place = from ?? (backup.localEnabled || backup.s3Bucket === undefined ? 'local' : 's3');
  if (place === 'local')
    return { kind: 'local', directory: broker.dlqBackupPath, file: undefined, withAside: false };
  return backup.s3Bucket === undefined
    ? 'There is no bucket in this application: set svc.broker.backup.s3-bucket.'
    : { kind: 's3' };
}
