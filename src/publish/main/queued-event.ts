import type { Clock } from '../../ground/clock.ts';
import { type Logger, throttledLog } from '../../observe/logger.ts';
import type { Outcome } from '../../observe/outcomes.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { BrokerRecord, SendFailure } from '../broker.ts';
import { nameOf } from '../fault.ts';
import { createMemory, type MemoryLimits } from '../memory-limits.ts';
import { type KeyOrder, spilled } from '../order/backup-order.ts';
import type { FailedEvent, NextTier } from '../tier.ts';
import { type Breaker, breakerOpen } from './breaker.ts';
import { bytesOf, toRecord } from './record.ts';

// what is in the queue of a partition: events, and the batches of them.

/** The send that an event was part of failed, and is tried again. What comes of that is in `next`. */
interface EventRetry {
  readonly failure: SendFailure;
  /** Which retry this will be, counted from 1. */
  readonly retry: number;
  readonly waitMs: number;
  /** Events in the same send. */
  readonly batchEvents: number;
  readonly event: QueuedEvent;
  readonly next: Promise<EventUpdate>;
}

/** An event leaves the queue for the next tier. */
interface Leave {
  readonly failed: FailedEvent;
  readonly event: QueuedEvent;
}

/** What its caller's side hears of an event: published (`undefined`), not published, or a retry before either. */
type EventUpdate = undefined | Leave | { readonly notice: EventRetry };

interface Admitted {
  /** On the monotonic clock. */
  readonly atMs: number;
  /** `Infinity`: it is held. */
  readonly deliveryTimeoutMs: number;
  readonly isProbe: boolean;
}

/**
 * One event in memory. Its caller's side awaits `signal`, so everything that is done for the event there runs in the
 * AsyncLocalStorage context of its call, without a context being kept per event.
 */
export class QueuedEvent {
  readonly event: SerializedEvent;
  readonly topic: string;
  readonly bytes: number;
  /** It tests the cluster for the breaker. */
  readonly isProbe: boolean;
  /** Both on the monotonic clock. */
  acceptedAtMs: number;
  deadlineAtMs: number;
  signal: Promise<EventUpdate>;
  record: BrokerRecord | undefined;
  attempts = 0;
  private resolve!: (signal: EventUpdate) => void;
  private settled = false;

  constructor(event: SerializedEvent, topic: string, bytes: number, admitted: Admitted) {
    this.event = event;
    this.topic = topic;
    this.bytes = bytes;
    this.isProbe = admitted.isProbe;
    this.acceptedAtMs = admitted.atMs;
    this.deadlineAtMs = admitted.atMs + admitted.deliveryTimeoutMs;
    this.signal = this.nextUpdate();
  }

  get isSettled(): boolean {
    return this.settled;
  }

  /** Earlier ones of its partition are in the backup, or on their way to it: its time does not run yet. */
  get isHeld(): boolean {
    return this.deadlineAtMs === Number.POSITIVE_INFINITY;
  }

  /** It may be sent: its time begins. */
  free(nowMs: number, deliveryTimeoutMs: number): void {
    this.acceptedAtMs = nowMs;
    this.deadlineAtMs = nowMs + deliveryTimeoutMs;
  }

  /** The backup had no room for it: it waits again. */
  comeBack(): void {
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
    this.settled = false;
    // It is made anew: a value that was asked for has a buffer of its own.
    this.record = undefined;
    this.signal = this.nextUpdate();
  }

  /** The first end counts. */
  published(): void {
    this.settle(undefined);
  }

  failed(failed: FailedEvent): void {
    this.settle({ failed, event: this });
  }

  /** Nobody hears of the event any more. */
  silenced(): void {
    this.settled = true;
  }

  /** With its record, which is there by then. */
  toFailed(failure: SendFailure): FailedEvent {
    const { event, topic, attempts, deadlineAtMs } = this;
    return { event, topic, attempts, failure, record: this.record as BrokerRecord, deadlineAtMs };
  }

  retrying(notice: Omit<EventRetry, 'event' | 'next'>): void {
    if (this.settled) return;
    const { resolve } = this;
    resolve({ notice: { ...notice, event: this, next: this.nextUpdate() } });
  }

  private settle(signal: EventUpdate): void {
    if (this.settled) return;
    this.settled = true;
    this.resolve(signal);
  }

  private nextUpdate(): Promise<EventUpdate> {
    return new Promise((resolve) => {
      this.resolve = resolve;
    });
  }
}

interface EventOutcomesOptions {
  readonly admission: Pick<Admission, 'release' | 'free'>;
  readonly next: NextTier;
  readonly order: Pick<KeyOrder, 'leaving' | 'decided'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onPublished: () => void;
  /** Puts an event that found the backup full back where it was. False: there is no room any more, and it is lost. */
  readonly putBack: (queued: QueuedEvent) => boolean;
  /** The backup has stored an event. */
  readonly onStored: () => void;
  readonly onLost: (event: SerializedEvent, topic: string, failure: SendFailure) => void;
}

export type EventOutcomes = ReturnType<typeof createEventOutcomes>;

/** From the end of an event in the queue to its outcome: published, or where the next tiers have put it. */
export function createEventOutcomes(options: EventOutcomesOptions) {
  const { admission, next, order, clock, logger, onPublished } = options;
  const onTheirWay = new Set<FailedEvent>();
  let takenOver: FailedEvent[] | undefined;
  /** In the queue, or with the next tier. */
  let pending = 0;
  const onIdle: (() => void)[] = [];

  function end(): void {
    if (--pending === 0) for (const resolve of onIdle.splice(0)) resolve();
  }

  /** One for all events: it is what most of them cost here. */
  function follow(signal: EventUpdate): Outcome | Promise<Outcome> {
    if (signal === undefined) {
      onPublished();
      end();
      return 'published';
    }
    if ('failed' in signal) {
      const { failed, event } = signal;
      return onTheirWay.delete(failed) ? toNextTier(failed, event) : new Promise(() => {});
    }
    sayRetry(signal.notice);
    return signal.notice.next.then(follow);
  }

  async function toNextTier(failed: FailedEvent, queued?: QueuedEvent): Promise<Outcome> {
    let outcome: Outcome = 'lost';
    try {
      outcome = await next(failed);
    } catch (error) {
      logger.error('a tier violated its contract', { error: nameOf(error) });
    }
    const isUndecided = outcome === 'lost' && failed.failure.endedBy === 'behind-unless-full';
    // It waits again before anything else may come.
    const isBack = isUndecided && queued !== undefined && options.putBack(queued);
    order.decided(failed);
    if (isBack) return queued.signal.then(follow);
    if (outcome === 'backup') options.onStored();
    if (isUndecided) options.onLost(failed.event, failed.topic, failed.failure);
    end();
    return outcome;
  }

  /** In the context of one event of the batch, whose id it names. */
  function sayRetry({ failure, retry: number, waitMs, batchEvents, event: queued }: EventRetry): void {
    const { event, topic } = queued;
    const fields = { eventId: event.eventId, topic, cause: failure.cause, events: batchEvents };
    logger.debug(`send failed, retry ${number} in ${Math.round(waitMs)} ms: ${failure.message}`, fields);
  }

  function fail(queued: QueuedEvent, failure: SendFailure): void {
    queued.record ??= toRecord(queued.event, clock.now());
    const failed = queued.toFailed(failure);
    if (takenOver === undefined) {
      onTheirWay.add(failed);
      order.leaving(failed);
      queued.failed(failed);
    } else {
      queued.silenced();
      takenOver.push(failed);
    }
  }

  return {
    /** Resolves with where the event ended; never rejects. Its work runs in the AsyncLocalStorage context of its call. */
    outcomeOf(queued: QueuedEvent): Promise<Outcome> {
      pending++;
      return queued.signal.then(follow);
    },
    /** The same of an event that was not taken in. */
    outcomeOfRefused(failed: FailedEvent): Promise<Outcome> {
      pending++;
      order.leaving(failed);
      return toNextTier(failed);
    },
    /** An event that was held may be sent. */
    free: admission.free,
    /** Ends an event in the queue: published, or failed and handed to the next tier. The first end counts. */
    settle(queued: QueuedEvent, failure: SendFailure | undefined): void {
      if (queued.isSettled) return;
      if (failure === undefined) queued.published();
      else fail(queued, failure);
      admission.release(queued);
    },
    /** Resolves when every event so far has its outcome. */
    idle: (): Promise<void> =>
      pending === 0 ? Promise.resolve() : new Promise((resolve) => onIdle.push(resolve)),
    /**
     * At the very end of the process, where no promise is heard any more: what the next tier was not given yet, for it hears
     * of an event a moment after its end. All that fail from now on are added to it.
     */
    takeOver(): readonly FailedEvent[] {
      takenOver = [...onTheirWay];
      onTheirWay.clear();
      return takenOver;
    },
  };
}

export const shutDown: SendFailure = {
  kind: 'retriable',
  cause: 'Shutdown',
  message: 'svc had to stop before the event was acknowledged',
  endedBy: 'shutdown',
};

export const stopped: SendFailure = { kind: 'fatal', cause: 'Closed', message: 'svc has stopped' };

export const tooManyAtOnce: SendFailure = {
  kind: 'retriable',
  cause: 'BufferFull',
  message:
    'one turn of the event loop made more events than fit into an eighth of the heap. svc sends nothing until the turn ends: in long loops, await setImmediate of node:timers/promises now and then',
};

/** The last net: whatever fails in the queue, the application goes on, and the event is counted. */
export function brokenQueue(error: unknown): SendFailure {
  return { kind: 'unknown_outcome', cause: nameOf(error), message: 'svc itself failed; please report it' };
}

/** The event was not acknowledged in its time. */
export function timedOut(deliveryTimeoutMs: number): SendFailure {
  return {
    kind: 'retriable',
    cause: 'TimeoutException',
    message: `not acknowledged within ${deliveryTimeoutMs} ms (svc.broker.delivery-timeout-ms, less what the dead letter topic and the backup need)`,
  };
}

interface AdmissionOptions {
  readonly buffer: MemoryLimits;
  /** Of the events that are held, over all topics: the others have room all the same. Default: 5,000 events, 16 MiB. */
  readonly held?: MemoryLimits | undefined;
  readonly deliveryTimeoutMs: number;
  readonly breaker: Breaker;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The event that tested the cluster has its end, and the cluster is away still. */
  readonly onProbeFailed: () => void;
  /** There are events to be sent, and were none before. */
  readonly onFirst: () => void;
}

const never = Number.POSITIVE_INFINITY;
const usualHeld: MemoryLimits = { maxEvents: 5_000, maxBytes: 16 * 1024 * 1024 };

type Admission = ReturnType<typeof createAdmission>;

/** Who may come in: the room in memory, and what the breaker says. */
export function createAdmission(options: AdmissionOptions) {
  const { deliveryTimeoutMs, breaker, clock, logger, onProbeFailed, onFirst } = options;
  const memory = createMemory(options.buffer);
  const held = createMemory(options.held ?? usualHeld);
  const warnFull = throttledLog(logger, clock, { level: 'warn', saysLeftOut: false });
  /** The event that tests the cluster, while it does. */
  let probe: QueuedEvent | undefined;

  /** It must not get to the next tier, or its topic, before an earlier event of its key has. */
  function isBehindProbe({ key }: SerializedEvent, topic: string): boolean {
    return probe !== undefined && probe.event.key === key && probe.topic === topic;
  }

  function afterProbe(): void {
    probe = undefined;
    if (breaker.state !== 'CLOSED') onProbeFailed();
  }

  function bufferFull(): SendFailure {
    const { maxEvents, maxBytes } = options.buffer;
    const message = `${memory.events} events of ${memory.bytes} bytes are in memory (at most ${maxEvents} events of ${maxBytes} bytes: svc.broker.buffer)`;
    warnFull('', `events go to the next tier, because ${message}`);
    return { kind: 'retriable', cause: 'BufferFull', message };
  }

  return {
    /** Without those that are held. */
    memory,
    /** Takes the event, or says why not. `isHeld`: the breaker is asked when it may be sent. */
    admit(event: SerializedEvent, topic: string, isHeld: boolean): QueuedEvent | SendFailure {
      const bytes = bytesOf(event);
      const atMs = clock.monotonic();
      if (isHeld && !held.reserve(bytes)) return spilled;
      if (isHeld)
        return new QueuedEvent(event, topic, bytes, { atMs, deliveryTimeoutMs: never, isProbe: false });
      // Room first: a probe that finds none would leave the breaker waiting.
      if (!memory.reserve(bytes)) return bufferFull();
      const admission = breaker.admit();
      if (admission === 'refused' && !isBehindProbe(event, topic)) {
        memory.release(bytes);
        return breakerOpen;
      }
      const isProbe = admission === 'probe';
      const queued = new QueuedEvent(event, topic, bytes, { atMs, deliveryTimeoutMs, isProbe });
      if (isProbe) probe = queued;
      if (memory.events === 1) onFirst();
      return queued;
    },
    /** An event that was held may be sent. */
    free(queued: QueuedEvent): void {
      held.release(queued.bytes);
      memory.reserveAnyway(queued.bytes);
      queued.free(clock.monotonic(), deliveryTimeoutMs);
      if (memory.events === 1) onFirst();
    },
    /** Takes one in again for which there was no room in the backup, as held. False: nor is there here. */
    takeBack(queued: QueuedEvent): boolean {
      const hasRoom = held.reserve(queued.bytes);
      if (hasRoom) queued.comeBack();
      return hasRoom;
    },
    /** Called once for each event that was taken, when it has its end. */
    release(queued: QueuedEvent): void {
      (queued.isHeld ? held : memory).release(queued.bytes);
      if (queued.isProbe) breaker.probeGone();
      // When its whole batch is settled, those of its key that wait behind it.
      if (queued === probe) void Promise.resolve().then(afterProbe);
    },
  };
}
