import { AsyncResource } from 'node:async_hooks';
import type { Clock } from '../../ground/clock.ts';
import type { SvcError } from '../../ground/errors.ts';
import type { Outcome } from '../../observe/outcomes.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { Publisher } from '../publisher.ts';

export interface KeyWaitOptions {
  readonly publisher: Publisher;
  /** Events that may wait. */
  readonly maxEvents: number;
  /** How long each may. */
  readonly limitMs: number;
  readonly clock: Clock;
  /** The message of what it makes of an error names no value. */
  readonly reasonOf: (error: unknown) => SvcError;
  /** The key did not come, or the event cannot be made. */
  readonly onRefused: (eventType: string, error: SvcError) => void;
}

/** A publisher whose events wait in memory for a key, and those behind them for them, while there is room: all keep their order. */
export interface KeyWait extends Publisher {
  /** Whether one more may wait. */
  readonly hasRoom: boolean;
  /** `seal` makes the event, or throws. `refused` when the time is over, or for another reason than its key. */
  publishLater(eventType: string, seal: () => SerializedEvent): Promise<Outcome>;
  /** Resolves when none waits. */
  settled(): Promise<void>;
  /** Those whose key is there go to the publisher, the others are refused. */
  endWaiting(): void;
}

interface Waiting {
  readonly eventType: string;
  readonly seal: () => SerializedEvent;
  readonly untilMs: number;
  /** In the context of its call. */
  readonly publish: Publisher['publish'];
  readonly resolve: (outcome: Outcome | Promise<Outcome>) => void;
}

/** The key cache asks its service by itself; here it is only looked whether the key is there. */
const lookMs = 100;

export function createKeyWait(options: KeyWaitOptions): KeyWait {
  const { publisher, maxEvents, limitMs, clock, reasonOf, onRefused } = options;
  let waiting: Waiting[] = [];
  let timer: NodeJS.Timeout | undefined;
  const context = new AsyncResource('svc.key-wait');
  const onSettled: (() => void)[] = [];

  /** False: it waits on. */
  function goesOn({ eventType, seal, untilMs, publish, resolve }: Waiting, isLast: boolean): boolean {
    try {
      resolve(publish(seal()));
    } catch (error) {
      const reason = reasonOf(error);
      if (reason.code === 'SVC_PROTECT_KEY_UNAVAILABLE' && !isLast && clock.monotonic() < untilMs)
        return false;
      onRefused(eventType, reason);
      resolve('refused');
    }
    return true;
  }

  function look(isLast = false): void {
    const first = waiting.findIndex((one) => !goesOn(one, isLast));
    waiting = first < 0 ? [] : waiting.slice(first);
    if (waiting.length > 0) return;
    clearInterval(timer);
    timer = undefined;
    for (const resolve of onSettled.splice(0)) resolve();
  }

  function wait(eventType: string, seal: () => SerializedEvent): Promise<Outcome> {
    return new Promise((resolve) => {
      const publish = AsyncResource.bind((event: SerializedEvent) => publisher.publish(event));
      waiting.push({ eventType, seal, untilMs: clock.monotonic() + limitMs, publish, resolve });
      timer ??= context.runInAsyncScope(() => setInterval(() => look(), lookMs));
    });
  }

  return {
    get hasRoom() {
      return waiting.length < maxEvents;
    },
    // What needs no key goes past a full room: it would be refused here, and can be sent.
    publish: (event) =>
      waiting.length > 0 && waiting.length < maxEvents
        ? wait(event.eventType, () => event)
        : publisher.publish(event),
    isRefused: (event) => publisher.isRefused?.(event) === true,
    isOneTooMany: (event) => publisher.isOneTooMany?.(event) === true,
    publishLater: wait,
    settled: () =>
      waiting.length === 0 ? Promise.resolve() : new Promise((resolve) => onSettled.push(resolve)),
    endWaiting: () => look(true),
  };
}
