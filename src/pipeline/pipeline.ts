// pipeline/: the path of one event, from its draft to its counted outcome.

import { AsyncResource } from 'node:async_hooks';
import type { Context } from '@opentelemetry/api';
import type { Call, CapturePlan, ExpressionScope, Nest, OnCall } from '../capture/call.ts';
import type { createTraceStarter, EventTrace } from '../context/context-store.ts';
import type { createEnvelopes } from '../envelope/envelope.ts';
import { clock } from '../ground/clock.ts';
import { type ErrorCode, SvcError } from '../ground/errors.ts';
import type { Severity } from '../ground/event-fields.ts';
import { runOwnWork } from '../ground/lifecycle.ts';
import type { Ledger, LedgerEntry, Outcome, PublishDurations } from '../observe/outcomes.ts';
import type { CheckedEvent } from '../outbox/api/outbox-event.ts';
import type { createOutboxJoin } from '../outbox/join.ts';
import { classMarks } from '../protect/marks/policy.ts';
import { type ClearText, type Protect, type ProtectedEnvelope, UnsealedError } from '../protect/protect.ts';
import { createCallerWait, createInFlight, type Generation } from '../publish/api/caller-wait.ts';
import { checkPublishOptions } from '../publish/api/check-options.ts';
import { toRecord } from '../publish/main/queue.ts';
import type { Producer, Publisher } from '../publish/publisher.ts';
import type { SerializedEvent, Serializer } from '../serialize/serializer.ts';
import { endOfTransaction, type Scope, type TransactionEnd } from '../transaction/transaction.ts';

interface PipelineParts {
  readonly ledger: Ledger;
  readonly durations: PublishDurations;
  readonly serializer: Serializer;
  readonly publisher: Publisher;
  /** Events wait in memory for a key that has not arrived: how many, and how long each. Default: they are refused. */
  readonly keyWait?: Pick<KeyWaitOptions, 'maxEvents' | 'limitMs'> | undefined;
  /** `svc.outbox.enabled`: events of targets with `outbox` join the transaction of their call. */
  readonly outbox?: ReturnType<typeof createOutboxJoin> | undefined;
  readonly defaultTopic: string;
  /** `svc.broker.async-mode`: callers do not wait. */
  readonly asyncMode: boolean;
  /** `svc.broker.max-wait-ms`: longest wait of a captured call. */
  readonly maxWaitMs: number;
  /** Default of `timeoutMs` in `publish()`. */
  readonly publishWaitMs: number;
  readonly nextId: () => string;
  readonly buildEnvelope: ReturnType<typeof createEnvelopes<Context>>;
  readonly startTrace: ReturnType<typeof createTraceStarter>;
  readonly protect: Protect;
  /** Classes have marked fields. */
  readonly usesMarks: boolean;
  /** Registers the `pii` rules of an event of `outbox.save()`. Throws for invalid rules. */
  readonly declareRules?: ((event: CheckedEvent) => void) | undefined;
  /** An event was refused. Called once for each, with a reason without values. */
  readonly onRefused: (eventType: string, error: SvcError) => void;
  /** The event of a watched call was made, with this key. */
  readonly onNested?: ((nest: Nest, key: string | undefined) => void) | undefined;
  /** The publisher violated its contract. */
  readonly onBroken: (event: SerializedEvent, error: unknown) => void;
}

export interface Pipeline {
  readonly onCall: OnCall;
  readonly producer: Producer;
  /** Stores an event made by the application. Throws, or rejects with, the reason if it cannot. */
  save(event: CheckedEvent, scope: Scope): Promise<void> | undefined;
  /** `undefined`: no event waits for a key. */
  readonly keyWait: Pick<KeyWait, 'settled' | 'endWaiting'> | undefined;
  /** Resolves when no event is in flight. */
  idle(): Promise<void>;
  /** Resolves when each event begun before the call has its outcome. */
  soFar(): Promise<void>;
}
/** Without the payload, which can then be garbage-collected while the event is in flight. */
interface Prepared extends Pick<EventDraft, 'eventType' | 'aggregateType' | 'aggregateId'> {
  readonly eventId: string;
  /** A function if its key has not arrived yet. */
  readonly event: SerializedEvent | (() => SerializedEvent);
  readonly trace: EventTrace;
}

/** The path of an event: call -> envelope -> protect -> serialize -> publish, and one counted outcome. */
export function createPipeline(parts: PipelineParts): Pipeline {
  const { ledger, durations, serializer, onRefused } = parts;
  const keyWait = parts.keyWait && createKeyWait({ ...parts.keyWait, publisher: parts.publisher, onRefused });
  const publisher: Publisher = keyWait ?? parts.publisher;
  const inFlight = createInFlight();
  const callers = createCallerWait(parts.maxWaitMs);
  const publishers = createCallerWait(parts.publishWaitMs);

  function protect(eventId: string, draft: EventDraft, trace: EventTrace): ProtectedEnvelope {
    return parts.protect(parts.buildEnvelope(eventId, draft, trace, clock.now()), textsInClear(draft));
  }

  function serialize(envelope: ProtectedEnvelope, draft: EventDraft, trace: EventTrace): SerializedEvent {
    const { eventId } = envelope;
    const { eventType, topic, key, headers: own } = draft;
    const { traceparent, tracestate } = trace;
    const record = { topic: topic ?? parts.defaultTopic, key, headers: own, trace };
    const value = serializer.serialize(envelope, record);
    const headers: Record<string, string> = { eventId, eventType, ...value.form.headers, traceparent };
    if (tracestate !== undefined) headers.tracestate = tracestate;
    if (own !== undefined) Object.assign(headers, own);
    return { eventId, eventType, topic, key: key ?? eventId, headers, value };
  }

  /** All work on the caller's path before the hand-over. Throws if the event cannot be made. */
  function prepare(draft: () => EventDraft, mayWait = true): Prepared {
    return runOwnWork(() => {
      const taken = draft();
      const eventId = parts.nextId();
      const trace = parts.startTrace(taken.topic ?? parts.defaultTopic, eventId, taken.context);
      const { eventType, aggregateType, aggregateId } = taken;
      let event: Prepared['event'];
      try {
        event = serialize(protect(eventId, taken, trace), taken, trace);
      } catch (error) {
        const canWait = mayWait && keyWait?.hasSpace && error instanceof UnsealedError;
        if (!canWait) trace.end('refused');
        if (!canWait) throw error;
        event = () => serialize((error as UnsealedError).seal(), taken, trace);
      }
      return { eventId, eventType, aggregateType, aggregateId, event, trace };
    });
  }

  /** `afterCommit`: waits for the transaction, and publishes nothing if it is rolled back. */
  async function publishAfter(
    ended: Promise<TransactionEnd>,
    prepared: Prepared,
    entry: LedgerEntry,
  ): Promise<void> {
    if ((await ended) !== 'rolled_back') return void (await publish(prepared, entry));
    prepared.trace.end('rolled_back');
    entry.close('rolled_back');
  }

  /** Stores the event in the transaction of the call, which decides its outcome. Returns the promise of the INSERT. */
  function store(
    draft: () => EventDraft,
    scope: Scope | undefined,
    entry: LedgerEntry,
    target?: string,
  ): Promise<void> | undefined {
    const { outbox } = parts;
    if (outbox === undefined) throw noOutbox();
    // Its transaction cannot wait for a key.
    const { event, trace, aggregateType = '', aggregateId = '' } = prepare(draft, false);
    const occurredAt = clock.now();
    const { value: payload, headers } = toRecord(event as SerializedEvent, occurredAt);
    const { eventId, eventType, key, topic = parts.defaultTopic } = event as SerializedEvent;
    const row = { eventId, eventType, aggregateType, aggregateId, topic, key, headers, payload, occurredAt };
    try {
      const { written, outcome } = outbox.store(row, scope, target);
      outcome.then(
        (known) => {
          trace.end(known);
          entry.close(known);
        },
        (error) => {
          trace.end('refused');
          refuse(eventType, entry, error);
        },
      );
      return written;
    } catch (error) {
      trace.end('refused');
      throw error;
    }
  }

  /**
   * Never rejects, because an unhandled rejection in async mode would end the process. The promise keeps the context of the call.
   * An `async` function would retain all its variables for each event in flight.
   */
  function publish({ event, trace, eventType }: Prepared, entry: LedgerEntry): Promise<Outcome> {
    let generation: Generation | undefined;
    let started = 0;
    const end = (outcome: Outcome): Outcome => {
      durations.record(eventType, (clock.monotonic() - started) / 1000);
      trace.end(outcome);
      entry.close(outcome);
      if (generation !== undefined) inFlight.end(generation);
      return outcome;
    };
    const fail = (error: unknown): Outcome => {
      if (typeof event !== 'function') parts.onBroken(event, error);
      return end('lost');
    };
    try {
      generation = inFlight.begin();
      started = clock.monotonic();
      if (typeof event === 'function' && keyWait !== undefined)
        return keyWait.publishLater(eventType, event).then(end, fail);
      const sent = event as SerializedEvent;
      if (publisher.rejectIfOverloaded?.(sent)) return Promise.resolve(end('lost'));
      return publisher.publish(sent).then(end, fail);
    } catch (error) {
      // If the application has used up its stack, `fail` would throw here, too. After the wait the stack is fresh.
      return Promise.resolve(error).then(fail);
    }
  }

  function refuse(eventType: string, entry: LedgerEntry, error: unknown): SvcError {
    entry.close('refused');
    const reason = reasonOf(error);
    onRefused(eventType, reason);
    return reason;
  }

  function onCall(call: Call): Promise<void> | undefined {
    const { plan } = call;
    let draft = (): EventDraft => {
      const taken = draftOf(call, parts.usesMarks);
      if (call.nest !== undefined) parts.onNested?.(call.nest, taken.key);
      return taken;
    };
    if (call.postpone !== undefined && parts.outbox?.storesAlone) {
      const taken = takeNow(draft);
      if (taken === undefined) {
        call.postpone();
        return undefined;
      }
      draft = taken;
    }
    const entry = ledger.open(plan.eventType);
    let published: Promise<Outcome>;
    let isRefused = false;
    try {
      if (plan.outbox !== undefined) return store(draft, call.scope, entry, plan.id);
      const prepared = prepare(draft);
      const ended = plan.afterCommit ? endOfTransaction(call.scope) : undefined;
      if (ended !== undefined) return void publishAfter(ended, prepared, entry);
      isRefused = typeof prepared.event !== 'function' && publisher.isRefused?.(prepared.event) === true;
      published = publish(prepared, entry);
    } catch (error) {
      const reason = refuse(plan.eventType, entry, error);
      if (plan.outbox !== undefined) parts.outbox?.refuse(reason, call.scope);
      if (plan.failOnError) throw reason;
      return undefined;
    }
    if (!call.canWait || parts.asyncMode) return undefined;
    if (isRefused && !plan.failOnError) return undefined;
    const waited = plan.failOnError ? callers.untilStored(published) : callers.forOutcome(published);
    return waited as Promise<unknown> as Promise<void>;
  }

  function save(event: CheckedEvent, scope: Scope): Promise<void> | undefined {
    const entry = ledger.open(event.eventType);
    try {
      parts.declareRules?.(event);
      return store(() => draftOfEvent(event), scope, entry);
    } catch (error) {
      const reason = refuse(event.eventType, entry, error);
      parts.outbox?.refuse(reason, scope);
      throw reason;
    }
  }

  return {
    onCall,
    save,
    keyWait,
    idle: inFlight.idle,
    soFar: inFlight.soFar,
    producer: {
      async publish(payload, given) {
        const options = checkPublishOptions(given);
        const eventType = options.eventType ?? classNameOf(payload);
        const { severity = 'INFO', topic, key, timeoutMs } = options;
        const entry = ledger.open(eventType);
        let prepared: Prepared;
        try {
          if (options.mistake !== undefined) throw options.mistake;
          prepared = prepare(() => {
            const headers = options.headers?.();
            return { eventType, severity, topic, key, headers, payload, context: undefined };
          });
        } catch (error) {
          throw refuse(eventType, entry, error);
        }
        const published = publish(prepared, entry);
        const outcome = await publishers.untilStored(published, timeoutMs);
        return { eventId: prepared.eventId, outcome };
      },
    },
  };
}

interface KeyWaitOptions {
  readonly publisher: Publisher;
  /** Events that may wait. */
  readonly maxEvents: number;
  /** How long each may. */
  readonly limitMs: number;
  /** The key did not arrive, or the event cannot be made. */
  readonly onRefused: (eventType: string, error: SvcError) => void;
}

/** A publisher whose events wait in memory for a key, up to a limit. Later events wait behind them, so all keep their order. */
interface KeyWait extends Publisher {
  readonly hasSpace: boolean;
  /** `seal` makes the event, or throws. `refused`: the time is over, or `seal` failed for a reason other than its key. */
  publishLater(eventType: string, seal: () => SerializedEvent): Promise<Outcome>;
  /** Resolves when no event waits. */
  settled(): Promise<void>;
  /** Publishes the events whose key has arrived, and refuses the others. */
  endWaiting(): void;
}

interface KeyWaitWaiting {
  readonly eventType: string;
  readonly seal: () => SerializedEvent;
  readonly untilMs: number;
  /** Bound to the context of its call. */
  readonly publish: Publisher['publish'];
  readonly resolve: (outcome: Outcome | Promise<Outcome>) => void;
}

/** The key cache fetches by itself. This polls whether the key has arrived. */
const lookMs = 100;

function createKeyWait(options: KeyWaitOptions): KeyWait {
  const { publisher, maxEvents, limitMs, onRefused } = options;
  let waiting: KeyWaitWaiting[] = [];
  let timer: NodeJS.Timeout | undefined;
  const context = new AsyncResource('svc.key-wait');
  const onSettled: (() => void)[] = [];

  /** False: it keeps waiting. */
  function goesOn({ eventType, seal, untilMs, publish, resolve }: KeyWaitWaiting, isLast: boolean): boolean {
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
    get hasSpace() {
      return waiting.length < maxEvents;
    },
    // An event without encrypted fields passes a full wait: waiting would refuse it, and it can be sent.
    publish: (event) =>
      waiting.length > 0 && waiting.length < maxEvents
        ? wait(event.eventType, () => event)
        : publisher.publish(event),
    isRefused: (event) => publisher.isRefused?.(event) === true,
    rejectIfOverloaded: (event) => publisher.rejectIfOverloaded?.(event) === true,
    publishLater: wait,
    settled: () =>
      waiting.length === 0 ? Promise.resolve() : new Promise((resolve) => onSettled.push(resolve)),
    endWaiting: () => look(true),
  };
}

/** The input of an event, from a captured call, `publish()` or `outbox.save()`. */
interface EventDraft {
  readonly eventType: string;
  readonly severity: Severity;
  readonly topic: string | undefined;
  readonly key: string | undefined;
  /** From the application, with valid names. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** Only for the outbox. */
  readonly aggregateType?: string | undefined;
  readonly aggregateId?: string | undefined;
  readonly payload: unknown;
  readonly context: Context | undefined;
}

/** @param usesMarks expressions whose results are sent in clear may not read marked fields */
function draftOf(call: Call, usesMarks: boolean): EventDraft {
  const plan: CapturePlan = call.plan;
  if (call.refusal !== undefined) throw call.refusal;
  const isGuarded = usesMarks && classMarks.any();
  const forKey = isGuarded ? inClear(call, 'SVC_PROTECT_KEY_IN_CLEAR') : call;
  const forHeaders = isGuarded ? inClear(call, 'SVC_PROTECT_HEADER_IN_CLEAR') : call;
  return {
    eventType: plan.eventType,
    severity: plan.severity,
    topic: plan.topic,
    key: plan.key?.(forKey),
    headers: plan.headers?.(forHeaders),
    aggregateType: plan.outbox?.aggregateType,
    aggregateId: plan.outbox?.aggregateId(forKey),
    payload: plan.payload(call),
    context: call.context,
  };
}

/** Runs the draft and keeps its result or error. `undefined`: it needs a call's result, which is not known yet. */
function takeNow(draft: () => EventDraft): (() => EventDraft) | undefined {
  try {
    const taken = draft();
    return () => taken;
  } catch (error) {
    if (error instanceof SvcError && error.code === 'SVC_CAPTURE_RESULT_UNKNOWN') return undefined;
    return () => {
      throw error;
    };
  }
}

function inClear(call: Call, code: ErrorCode): ExpressionScope {
  const { args, self, error } = call;
  const refuses = (target: unknown, field: string) => (classMarks.isOn(target, field) ? code : undefined);
  return {
    ...{ args, self, error, refuses },
    get result() {
      return call.result;
    },
  };
}

function draftOfEvent(event: CheckedEvent): EventDraft {
  if (event.mistake !== undefined) throw event.mistake;
  return { ...event, headers: event.headers?.(), context: undefined };
}

/** Names that cannot be personal data. */
const usualName = /^[a-z][a-z0-9_-]*$/i;

/** Without a key the event id is used, which needs no check. */
function textsInClear({ key, headers, aggregateId }: EventDraft): readonly ClearText[] | undefined {
  if (headers === undefined && key === undefined && aggregateId === undefined) return undefined;
  const texts: ClearText[] = [];
  if (headers !== undefined) {
    for (const [name, text] of Object.entries(headers)) {
      texts.push({ of: 'header', text });
      if (!usualName.test(name)) texts.push({ of: 'header', text: name });
    }
  }
  if (key !== undefined) texts.push({ of: 'key', text: key });
  if (aggregateId !== undefined && aggregateId !== key) texts.push({ of: 'key', text: aggregateId });
  return texts;
}

/**
 * From the class, never from a field `constructor`, because the name is sent in clear. The caller does not see errors of this
 * access.
 */
function classNameOf(payload: unknown): string {
  try {
    const prototype = (typeof payload === 'object' && Object.getPrototypeOf(payload)) as object;
    const owner = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value as () => void;
    const name = Object.getOwnPropertyDescriptor(owner, 'name')?.value as unknown;
    return typeof name === 'string' && name !== '' && name !== 'Object' ? name : 'Event';
  } catch {
    return 'Event';
  }
}

/** Sent directly, the event could not be rolled back with its transaction. */
function noOutbox(): SvcError {
  return new SvcError(
    'SVC_PIPELINE_NO_OUTBOX',
    'a target with outbox was called, but this process has no outbox: set svc.outbox.enabled: true, and svc.outbox.datasource.url',
  );
}

/** Messages of errors that are not svc's may contain values of the payload, so they are not passed on. */
function reasonOf(error: unknown): SvcError {
  if (error instanceof SvcError) return error;
  return new SvcError('SVC_PIPELINE_UNEXPECTED', 'an unexpected error occurred before the event was sent');
}
