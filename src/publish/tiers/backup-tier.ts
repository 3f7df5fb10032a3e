import { type Clock, inTime, within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { type Logger, type QuietLog, throttledLog } from '../../observe/logger.ts';
import type { BackupEvent, EventBackupStrategy } from '../backup-strategy.ts';
import { nameOf } from '../main/queued-event.ts';
import { createMemory, createSendSlots, type Memory } from '../memory-limits.ts';
import { isSpilled } from '../order/backup-order.ts';
import type { FailedEvent, Tier } from '../tier.ts';

export interface BackupTierOptions {
  /** In the order in which they are tried; asked for each event, for applications register theirs at any time. */
  readonly strategies: () => readonly EventBackupStrategy[];
  /** The one whose events are drained: what goes behind events that wait there is given to it first, however busy it is. */
  readonly drained?: EventBackupStrategy | undefined;
  /** It has stored an event. */
  readonly onDrainable?: ((failed: FailedEvent) => void) | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Runs a store as svc's own work. */
  readonly isolate: <T>(work: () => Promise<T>) => Promise<T>;
}

export interface BackupTier extends Tier {
  readonly name: 'backup';
  /** At the end of the process, synchronously. Returns how many of them are stored. */
  storeSync(failed: readonly FailedEvent[]): number;
}

/**
 * How long a strategy that failed is passed over where another one follows: an S3 that hangs costs one wait, not one for each
 * event. Also the least time between two log lines about it.
 */
const pauseMs = 5_000;
/** A strategy that takes longer to store an event has failed. */
const answerMs = 30_000;
/** Events that one strategy stores at once. More go to the strategy that follows. */
const maxInFlight = 256;
/** Events that no strategy took and that are tried a second time at once. */
const maxSecondTries = 32;
/** Events that wait for their second try. One more is lost. */
const maxWaiting = 10_000;
/** Bytes of the events that wait for their second try, and of those under way in one strategy: one that hangs fills no memory. */
const maxBytes = 128 * 1024 * 1024;

interface StrategyState {
  readonly inFlight: Memory;
  readonly say: QuietLog;
  pausedUntilMs: number;
}

/** Backup strategies in their order: the first one that stores an event has it. */
export function createBackupTier(options: BackupTierOptions): BackupTier {
  const { clock, logger } = options;
  const states = new WeakMap<EventBackupStrategy, StrategyState>();
  const secondTries = createSendSlots(maxSecondTries);
  const waiting = createMemory({ maxEvents: maxWaiting, maxBytes });
  let inFlight = 0;
  const onIdle: (() => void)[] = [];

  function stateOf(strategy: EventBackupStrategy): StrategyState {
    let state = states.get(strategy);
    if (state === undefined) {
      state = {
        inFlight: createMemory({ maxEvents: Number.POSITIVE_INFINITY, maxBytes }),
        say: throttledLog(logger, clock, { intervalMs: pauseMs, saysLeftOut: false }),
        pausedUntilMs: Number.NEGATIVE_INFINITY,
      };
      states.set(strategy, state);
    }
    return state;
  }

  function report(strategy: EventBackupStrategy, state: StrategyState, error: unknown): void {
    state.pausedUntilMs = clock.monotonic() + pauseMs;
    state.say('', `backup "${strategy.name}" failed: ${reasonOf(error)}`);
  }

  async function tryOne(strategy: EventBackupStrategy, event: BackupEvent): Promise<boolean> {
    const state = stateOf(strategy);
    const size = event.value.length;
    if (!state.inFlight.reserve(size)) {
      report(strategy, state, tooSlow(state.inFlight.bytes));
      return false;
    }
    try {
      // One that is written in JavaScript may store at once, and return nothing.
      const storing = options.isolate(async () => strategy.store(event));
      await inTime(storing, { limitMs: answerMs, keepsAlive: false, late: noAnswer });
      return true;
    } catch (error) {
      report(strategy, state, error);
      return false;
    } finally {
      state.inFlight.release(size);
    }
  }

  async function store(failed: FailedEvent): Promise<boolean> {
    const event = toBackupEvent(failed, clock.now());
    const { drained } = options;
    const isFirst = isSpilled(failed.failure) ? drained : undefined;
    const strategies = inOrder(options.strategies(), isFirst);
    for (const [index, strategy] of strategies.entries()) {
      const isLast = index === strategies.length - 1;
      const state = stateOf(strategy);
      const isBusy = state.inFlight.events >= maxInFlight || clock.monotonic() < state.pausedUntilMs;
      if (isBusy && !isLast && strategy !== isFirst) continue;
      if (!(await tryOne(strategy, event))) continue;
      if (strategy === drained) options.onDrainable?.(failed);
      return true;
    }
    return strategies.length > 1 && tryAgain(strategies.slice(0, -1), event, failed);
  }

  /**
   * Before an event is lost, those before the last one are asked once more, a few events at a time: they were busy, or had
   * so much to do that they did not answer in time.
   */
  async function tryAgain(
    strategies: readonly EventBackupStrategy[],
    event: BackupEvent,
    failed: FailedEvent,
  ): Promise<boolean> {
    const size = event.value.length;
    if (!waiting.reserve(size)) return false;
    await new Promise<void>((resolve) => secondTries.acquire(resolve));
    waiting.release(size);
    try {
      for (const strategy of strategies) {
        if (!(await tryOne(strategy, event))) continue;
        if (strategy === options.drained) options.onDrainable?.(failed);
        return true;
      }
      return false;
    } finally {
      secondTries.release();
    }
  }

  return {
    name: 'backup',
    async store(failed) {
      inFlight++;
      const stored = await store(failed);
      inFlight--;
      if (inFlight === 0) for (const resolve of onIdle.splice(0)) resolve();
      return stored;
    },
    storeSync(failed) {
      const events = failed.map((one) => toBackupEvent(one, clock.now()));
      for (const strategy of options.strategies()) {
        if (strategy.storeSync === undefined || events.length === 0) continue;
        try {
          const left: unknown = strategy.storeSync(events);
          if (left instanceof Promise) throw notSync(left);
          return events.length;
        } catch (error) {
          logger.error(`backup "${strategy.name}" failed: ${reasonOf(error)}`);
        }
      }
      return 0;
    },
    async close(deadlineMs) {
      const end = clock.monotonic() + deadlineMs;
      if (inFlight > 0) await within(deadlineMs, new Promise<void>((resolve) => onIdle.push(resolve)));
      const rest = Math.max(0, end - clock.monotonic());
      const closing = options.strategies().map((strategy) => closed(strategy, rest));
      await within(rest, Promise.all(closing));
    },
  };
}

function inOrder(
  strategies: readonly EventBackupStrategy[],
  first: EventBackupStrategy | undefined,
): readonly EventBackupStrategy[] {
  if (first === undefined) return strategies;
  return [first, ...strategies.filter((strategy) => strategy !== first)];
}

function toBackupEvent({ event, topic, record, failure }: FailedEvent, nowMs: number): BackupEvent {
  const { eventId, eventType } = event;
  const { key, headers, value } = record;
  const { form } = event.value;
  const document = form.toJson && { document: form.toJson(value) };
  const reason = failure.cause;
  return { eventId, eventType, topic, key, headers, value, ...document, reason, backedUpAt: nowMs };
}

/** Whatever one of the application's does, what comes after it is closed as well. */
async function closed(strategy: EventBackupStrategy, deadlineMs: number): Promise<void> {
  try {
    await strategy.close?.(deadlineMs);
  } catch {
    // Its events have had their answers.
  }
}

/** Only svc's own errors are known to hold no payload. */
function reasonOf(error: unknown): string {
  if (error instanceof SvcError) return error.message;
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code === 'string' && /^[A-Z_]+$/.test(code)) return code;
  return nameOf(error);
}

function tooSlow(bytes: number): SvcError {
  return new SvcError('SVC_PUBLISH_BACKUP_FAILED', `it is too slow: ${bytes} bytes wait for its answer`);
}

function notSync(left: Promise<unknown>): SvcError {
  left.catch(() => {});
  return new SvcError(
    'SVC_PUBLISH_BACKUP_FAILED',
    'its storeSync returns a promise, and at the end of the process nobody can wait for it',
  );
}

function noAnswer(): never {
  throw new SvcError('SVC_PUBLISH_BACKUP_FAILED', `no answer within ${answerMs / 1000} s`);
}
