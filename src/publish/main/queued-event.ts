import type { Clock } from '../../ground/clock.ts';
import { type Logger, throttledLog } from '../../observe/logger.ts';
import type { Outcome } from '../../observe/outcomes.ts';
import type { EventForm, EventValue, SerializedEvent } from '../../serialize/serializer.ts';
import type { BrokerRecord, SendFailure } from '../broker.ts';
import { nameOf } from '../fault.ts';
import { createMemory, type MemoryLimits } from '../memory-limits.ts';
import { type KeyOrder, spilled } from '../order/backup-order.ts';
import type { FailedEvent, NextTier } from '../tier.ts';
import { type Breaker, breakerOpen } from './cluster-state.ts';

// An event from admission to outcome.

/** A failed send that is retried. Its result is in `next`. */
interface EventRetry {
  readonly failure: SendFailure;
  /** Number of the retry, from 1. */
  readonly retry: number;
  readonly waitMs: number;
  /** Events in the same send. */
  readonly batchEvents: number;
  readonly event: QueuedEvent;
  readonly next: Promise<EventUpdate>;
}

/** The event leaves the queue for the next tier. */
interface Leave {
  readonly failed: FailedEvent;
  readonly event: QueuedEvent;
}

/** Update for the caller's side: published (`undefined`), not published, or a retry before either. */
type EventUpdate = undefined | Leave | { readonly notice: EventRetry };

interface Admitted {
  /** On the monotonic clock. */
  readonly atMs: number;
  /** `Infinity`: it is held. */
  readonly deliveryTimeoutMs: number;
  readonly isProbe: boolean;
}

/**
 * One event in memory. Its caller's side awaits `signal`. So all work for the event runs in the AsyncLocalStorage context of its
 * call, and no context is stored per event.
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

  /** Waits because earlier events of its partition are in the backup or on their way there. Its delivery time has not begun. */
  get isHeld(): boolean {
    return this.deadlineAtMs === Number.POSITIVE_INFINITY;
  }

  /** It may be sent: its delivery time begins. */
  free(nowMs: number, deliveryTimeoutMs: number): void {
    this.acceptedAtMs = nowMs;
    this.deadlineAtMs = nowMs + deliveryTimeoutMs;
  }

  /** The backup was full: it waits again. */
  comeBack(): void {
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
    this.settled = false;
    // A record whose value was read has its own buffer. It is made again later.
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

  /** Later updates are dropped. */
  silenced(): void {
    this.settled = true;
  }

  /** Requires `record`. */
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
  /** Puts an event that found the backup full back into its queue. False: no space; the event is lost. */
  readonly putBack: (queued: QueuedEvent) => boolean;
  /** The backup has stored an event. */
  readonly onStored: () => void;
  readonly onLost: (event: SerializedEvent, topic: string, failure: SendFailure) => void;
}

export type EventOutcomes = ReturnType<typeof createEventOutcomes>;

/** From the end of an event in the queue to its outcome: published, or the tier that stored it. */
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

  /** One function for all events, because a closure per event is most of the cost here. */
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
    // It must wait again before later events can arrive.
    const isBack = isUndecided && queued !== undefined && options.putBack(queued);
    order.decided(failed);
    if (isBack) return queued.signal.then(follow);
    if (outcome === 'backup') options.onStored();
    if (isUndecided) options.onLost(failed.event, failed.topic, failed.failure);
    end();
    return outcome;
  }

  /** Runs in the context of the event that it names. */
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
    /** The same for an event that was not admitted. */
    outcomeOfRefused(failed: FailedEvent): Promise<Outcome> {
      pending++;
      order.leaving(failed);
      return toNextTier(failed);
    },
    /** A held event may be sent. */
    free: admission.free,
    /** Ends an event in the queue: published, or failed and passed to the next tier. The first end counts. */
    settle(queued: QueuedEvent, failure: SendFailure | undefined): void {
      if (queued.isSettled) return;
      if (failure === undefined) queued.published();
      else fail(queued, failure);
      admission.release(queued);
    },
    /** Resolves when each event so far has its outcome. */
    idle: (): Promise<void> =>
      pending === 0 ? Promise.resolve() : new Promise((resolve) => onIdle.push(resolve)),
    /**
     * For the end of the process, when promises no longer resolve. Returns the failed events that the next tier has not received
     * yet. Events that fail later are appended to it.
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

/** The last resort: after any error in the queue the application continues, and the event is counted. */
export function brokenQueue(error: unknown): SendFailure {
  return { kind: 'unknown_outcome', cause: nameOf(error), message: 'svc itself failed; please report it' };
}

export function timedOut(deliveryTimeoutMs: number): SendFailure {
  return {
    kind: 'retriable',
    cause: 'TimeoutException',
    message: `not acknowledged within ${deliveryTimeoutMs} ms (svc.broker.delivery-timeout-ms, less what the dead letter topic and the backup need)`,
  };
}

interface AdmissionOptions {
  readonly buffer: MemoryLimits;
  /** For held events, over all topics; others have their own limits. Default: 5,000 events, 16 MiB. */
  readonly held?: MemoryLimits | undefined;
  readonly deliveryTimeoutMs: number;
  readonly breaker: Breaker;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The probe has ended, and the cluster is still away. */
  readonly onProbeFailed: () => void;
  /** The first event to send, after none. */
  readonly onFirst: () => void;
}

const never = Number.POSITIVE_INFINITY;
const usualHeld: MemoryLimits = { maxEvents: 5_000, maxBytes: 16 * 1024 * 1024 };

type Admission = ReturnType<typeof createAdmission>;

/** Admits or refuses events, by memory and breaker. */
export function createAdmission(options: AdmissionOptions) {
  const { deliveryTimeoutMs, breaker, clock, logger, onProbeFailed, onFirst } = options;
  const memory = createMemory(options.buffer);
  const held = createMemory(options.held ?? usualHeld);
  const warnFull = throttledLog(logger, clock, { level: 'warn', saysLeftOut: false });
  /** The event that tests the cluster now. */
  let probe: QueuedEvent | undefined;

  /** It must not overtake the probe, which has the same key. */
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
    /** Without held events. */
    memory,
    /** Admits the event, or returns why not. `isHeld`: the breaker is asked when it may be sent. */
    admit(event: SerializedEvent, topic: string, isHeld: boolean): QueuedEvent | SendFailure {
      const bytes = bytesOf(event);
      const atMs = clock.monotonic();
      if (isHeld && !held.reserve(bytes)) return spilled;
      if (isHeld)
        return new QueuedEvent(event, topic, bytes, { atMs, deliveryTimeoutMs: never, isProbe: false });
      // Memory first: a probe that does not fit would leave the breaker HALF-OPEN.
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
    /** A held event may be sent. */
    free(queued: QueuedEvent): void {
      held.release(queued.bytes);
      memory.reserveAnyway(queued.bytes);
      queued.free(clock.monotonic(), deliveryTimeoutMs);
      if (memory.events === 1) onFirst();
    },
    /** Admits an event, as held, that found the backup full. False: no space here, either. */
    takeBack(queued: QueuedEvent): boolean {
      const hasRoom = held.reserve(queued.bytes);
      if (hasRoom) queued.comeBack();
      return hasRoom;
    },
    /** Called once for each admitted event, when it ends. */
    release(queued: QueuedEvent): void {
      (queued.isHeld ? held : memory).release(queued.bytes);
      if (queued.isProbe) breaker.probeGone();
      // Settle the whole batch first, then the events that wait behind the probe.
      if (queued === probe) void Promise.resolve().then(afterProbe);
    },
  };
}

/** The record of an event that is sent now: `publishedAt` and the record's timestamp are equal. */
export function toRecord(event: SerializedEvent, nowMs: number): BrokerRecord {
  return new EventRecord(event, nowMs);
}

/** The record headers of an event that is sent or stored now. */
export function headersAt(
  { headers, value: { form } }: SerializedEvent,
  nowMs: number,
): SerializedEvent['headers'] {
  const { publishedAtHeader: name } = form;
  return name === undefined ? headers : { ...headers, [name]: form.publishedAt(nowMs) };
}

/** The record value of an event that is stored now, for callers that need only these bytes. */
export function valueBytesOf({ value }: SerializedEvent, nowMs: number): Buffer {
  return bytesAt(value, publishedAtIn(value.form, nowMs));
}

function bytesAt(value: EventValue, publishedAt: string): Buffer {
  const bytes = Buffer.allocUnsafe(value.length + publishedAt.length);
  value.write(bytes, 0, publishedAt);
  return bytes;
}

/** The value gets its own buffer only when read. A client that writes many records copies the bytes to their destination. */
class EventRecord implements BrokerRecord {
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timestamp: number;
  private readonly source: EventValue;
  private readonly publishedAt: string;
  private bytes: Buffer | undefined = undefined;

  constructor(event: SerializedEvent, nowMs: number) {
    this.key = event.key;
    this.headers = headersAt(event, nowMs);
    this.timestamp = nowMs;
    this.source = event.value;
    this.publishedAt = publishedAtIn(event.value.form, nowMs);
  }

  get valueBytes(): number {
    return this.source.length + this.publishedAt.length;
  }

  get value(): Buffer {
    this.bytes ??= bytesAt(this.source, this.publishedAt);
    return this.bytes;
  }

  writeValue(to: Buffer, start: number): void {
    this.source.write(to, start, this.publishedAt);
  }
}

let lastForm: EventForm | undefined;
let lastMs = Number.NaN;
let lastText = '';

/** The text between the two parts of a value. It is the same for all records of a batch. */
function publishedAtIn(form: EventForm, nowMs: number): string {
  if (form.publishedAtHeader !== undefined) return '';
  if (form !== lastForm || nowMs !== lastMs) {
    lastText = form.publishedAt(nowMs);
    lastForm = form;
    lastMs = nowMs;
  }
  return lastText;
}

const publishedAtBytes = 24;
/** Upper bound of a record's lengths, offsets and timestamp. */
const recordBytes = 40;
/** Upper bound of a header's lengths. */
const headerBytes = 6;

/** Size in bytes of the event's record, a few bytes too high. */
export function bytesOf({ value, key, headers }: SerializedEvent): number {
  let bytes = recordBytes + publishedAtBytes + utf8Length(key) + value.length;
  const { publishedAtHeader } = value.form;
  if (publishedAtHeader !== undefined) bytes += headerBytes + publishedAtHeader.length;
  for (const name of Object.keys(headers)) {
    bytes += headerBytes + utf8Length(name) + utf8Length(headers[name] as string);
  }
  return bytes;
}

/** Keys and headers are short and mostly ASCII: a loop is faster than a call of Node. */
function utf8Length(text: string): number {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return Buffer.byteLength(text);
  return text.length;
}
