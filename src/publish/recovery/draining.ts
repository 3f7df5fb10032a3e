import { type Clock, isAnswered } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import type { Logger } from '../../observe/logger.ts';
import { createQuietLog } from '../../observe/quiet-log.ts';
import type { BackupOrder } from '../order/backup-order.ts';
import type { RecoverySource } from '../recovery-source.ts';
import { type RecoverOptions, type RecoverReport, recover, type UnendedBatches } from './recover.ts';

export interface DrainOptions
  extends Pick<RecoverOptions, 'send' | 'partitionsFor' | 'partitionOf' | 'sleep'> {
  /** Keeps what this process has stored in order with new events. `undefined`: nothing does, and all of it is in `left`. */
  readonly journal?: Journal | undefined;
  /** What processes have left that are gone. One process at a time opens it. */
  readonly left: RecoverySource;
  /** Whether there may have been any at the start: with a journal all events wait until they are known. */
  readonly mayHaveBacklog: boolean;
  /** Whether the folder holds anything at all. */
  readonly hasLeft: () => Promise<boolean>;
  /** What this process still writes becomes readable in `left`. */
  readonly prepare?: (() => Promise<void>) | undefined;
  /** For what nobody waits behind. */
  readonly ratePerSecond: number;
  /** Asks the cluster whether it is there. */
  readonly ask: () => Promise<unknown>;
  /** The cluster has taken events. */
  readonly onAnswered: () => void;
  /** After a look that took events out, or set some aside. */
  readonly onDrained: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What this process has stored itself. */
export interface Journal {
  readonly order: BackupOrder;
  readonly source: RecoverySource;
  /** Whether there is any of it; what `source` reads next is what there is now. It may leave out what has a lower id than `from`. */
  readonly hasEvents: (from: bigint) => Promise<boolean>;
}

/** What the drains of the journal and of what is left have in common. */
export interface Draining {
  isReachable(): Promise<boolean>;
  send(
    source: RecoverySource,
    some: Pick<RecoverOptions, 'accept' | 'onHeldUp' | 'isOver' | 'ratePerSecond'>,
  ): Promise<RecoverReport>;
  /** Says what became of a run. */
  tell(report: RecoverReport): Promise<void>;
  /** A line about one trouble, once in a while. */
  say(about: string, message: string): void;
  count(): number;
  /** The run under way ends after its batch. */
  stop(): void;
}

/** Waits after a refusal, doubling, where new events go behind what is refused. */
export const firstPauseMs = 500;
export const longestPauseMs = 10_000;
/** In a row, of the folder or a file in it, until new events wait no longer for what is there. */
export const mostFailures = 5;
/** How often what others leave is looked for. */
export const lookMs = 60_000;

/** How long the cluster may take to say that it is there. */
const answerMs = 1_000;
/** How often what is in the folder is counted while it is sent. */
const countMs = 5_000;
/** A line about one trouble, and about what was sent. */
const sayMs = 60_000;
const saySentMs = 10_000;

export function createDraining(options: DrainOptions): Draining {
  const { journal, clock, logger } = options;
  const say = createQuietLog(logger, clock, { level: 'warn', intervalMs: sayMs, saysLeftOut: false });
  const unended = new Map<RecoverySource, UnendedBatches>();
  let isClosed = false;
  let drained = 0;
  let unsaid = 0;
  let saidAtMs = clock.monotonic();
  let countedAtMs = clock.monotonic();

  function sent(events: number): void {
    if (events === 0) return;
    drained += events;
    unsaid += events;
    options.onAnswered();
    if (clock.monotonic() - countedAtMs < countMs) return;
    countedAtMs = clock.monotonic();
    void options.onDrained();
  }

  function saySent(): void {
    const nowMs = clock.monotonic();
    if (unsaid === 0 || (journal?.order.isBehind() === true && nowMs - saidAtMs < saySentMs)) return;
    logger.info('events of the backup were sent to their topics', { events: unsaid });
    unsaid = 0;
    saidAtMs = nowMs;
  }

  const draining: Draining = {
    isReachable: () => isAnswered(options.ask(), answerMs),
    send(source, some) {
      let known = 0;
      const ofSource: UnendedBatches = unended.get(source) ?? new Map();
      unended.set(source, ofSource);
      return recover({
        ...options,
        ...some,
        isReachable: draining.isReachable,
        source,
        keepsOrder: true,
        unended: ofSource,
        // The next look is the next try.
        retryWaitsMs: [],
        dryRun: false,
        setsAside: true,
        isStopped: () => isClosed,
        onProgress(so) {
          sent(so.sent - known);
          known = so.sent;
        },
      });
    },
    async tell(report) {
      for (const [reason, events] of report.problems)
        say(reason, `events stay in the backup: ${reason}`, { events });
      for (const { place, reason, isInUse } of report.unreadable)
        if (isInUse !== true) say(place, `backup: ${place}: ${reason}`);
      if (report.sent + report.setAside > 0) await options.onDrained();
      saySent();
    },
    say,
    count: () => drained,
    stop() {
      isClosed = true;
    },
  };
  return draining;
}

export function reasonOf(error: unknown): string {
  if (error instanceof SvcError) return error.message;
  return (error as NodeJS.ErrnoException)?.code ?? (error instanceof Error ? error.name : 'unknown error');
}
