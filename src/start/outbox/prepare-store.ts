import { backoffMs, inTime, systemClock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { isolate } from '../../observe/isolate.ts';
import type { Logger } from '../../observe/logger.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import { reasonOf } from '../../outbox/relay/signal.ts';
import { isPassing } from '../../outbox/store-error.ts';
import type { SenderWatch } from './watch-senders.ts';

const firstPauseMs = 1_000;
const longestPauseMs = 30_000;

export interface PrepareOptions {
  readonly store: Pick<OutboxStore, 'prepare'>;
  /** Looks whether the tables fit the settings, once they are there. */
  readonly senders: Pick<SenderWatch, 'look' | 'refusal'>;
  /** This process makes the tables where there are none. */
  readonly makesTables: boolean;
  /** The longest that an event waits for them. */
  readonly maxWaitMs: number;
  readonly logger: Logger;
}

/** The tables of an outbox, looked at or made. */
export interface StorePreparation {
  /** Resolves when that was tried once, whatever came of it. */
  readonly tried: Promise<void>;
  /**
   * Before a row is written. `undefined`: it may be. Else it is to wait, `maxWaitMs` at most: for the first look at the tables, or until
   * they are made. Throws, or rejects, where the event would be lost.
   */
  ready(): Promise<void> | undefined;
  /** False while tables that this process makes are not there. */
  isReady(): boolean;
  /** It is not tried again. */
  stop(): void;
}

/**
 * A database that is away, or takes no writes yet, is asked again until it is otherwise: its tables may have to be made. What else is
 * wrong is said once.
 */
export function prepareStore(options: PrepareOptions): StorePreparation {
  const { store, senders, makesTables, maxWaitMs, logger } = options;
  let failures = 0;
  let failedAtMs = 0;
  let isPrepared = false;
  let isGivenUp = false;
  let underWay: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  async function attempt(): Promise<void> {
    try {
      await store.prepare();
    } catch (error) {
      if (isGivenUp) return;
      failedAtMs = systemClock.monotonic();
      if (failures++ === 0) logger.error(`outbox: ${reasonOf(error)}`);
      isGivenUp = !isPassing(error);
      if (!isGivenUp) timer = setTimeout(begin, backoffMs(failures, firstPauseMs, longestPauseMs)).unref();
      return;
    }
    if (!isGivenUp) await senders.look();
    isPrepared = true;
  }

  function begin(): Promise<void> {
    clearTimeout(timer);
    underWay = isolate(attempt).finally(() => {
      underWay = undefined;
    });
    return underWay;
  }

  function refuse(): void {
    const refusal = senders.refusal();
    if (refusal !== undefined) throw new SvcError(refusal.code, refusal.message);
  }

  const tried = begin();
  return {
    tried,
    ready() {
      refuse();
      if (isPrepared || isGivenUp) return undefined;
      if (failures > 0 && !makesTables) return undefined;
      // An application that has come so far has a database that answers: the rest of a long pause is not waited for.
      const isPause = underWay === undefined && systemClock.monotonic() - failedAtMs < firstPauseMs;
      if (isPause) return undefined;
      const looked = (underWay ?? begin()).then(refuse);
      return inTime(looked, { limitMs: maxWaitMs, keepsAlive: false, late: () => undefined });
    },
    isReady: () => isPrepared || !makesTables,
    stop() {
      isGivenUp = true;
      clearTimeout(timer);
    },
  };
}
