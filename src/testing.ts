/**
 * `svc/testing`: what an application under test has published with `svc.broker.client: memory`.
 *
 * @example
 * ```ts
 * import { assertPublished, clear, waitFor } from 'svc/testing';
 *
 * beforeEach(() => clear());
 *
 * it('publishes ORDER_CREATED', async () => {
 *   await app.inject({ method: 'POST', url: '/orders', payload: { total: 12 } });
 *   const [event] = await waitFor({ eventType: 'ORDER_CREATED' });
 *   assertPublished({ eventType: 'ORDER_CREATED', payload: { total: 12 } });
 * });
 * ```
 */
import { AssertionError } from 'node:assert';
import { type StoredRecord, sharedMemoryStore } from './adapters/memory/memory-store.ts';
import type { Severity } from './ground/event-fields.ts';

/** One published event, as its consumers read it. What was not known is `null`. */
export interface PublishedEvent<Payload = Record<string, unknown>> {
  readonly eventId: string;
  readonly eventType: string;
  /** ISO 8601, UTC: when the call finished. */
  readonly occurredAt: string;
  /** ISO 8601, UTC: when the record was handed to the broker. */
  readonly publishedAt: string;
  readonly severity: Severity;
  readonly metadata: {
    readonly source: {
      readonly serviceName: string | null;
      readonly serviceVersion: string | null;
      readonly hostname: string | null;
    };
    readonly actor: { readonly userId: string | null; readonly sessionId: string | null };
    readonly trace: {
      readonly traceId: string | null;
      readonly spanId: string | null;
      readonly parentSpanId: string | null;
    };
    readonly correlationId: string | null;
    readonly clientIp: string | null;
    readonly tags: Readonly<Record<string, string>>;
  };
  readonly payload: Payload;
}

/** An event with what surrounds it in its record. */
export interface PublishedRecord<Payload = Record<string, unknown>> {
  readonly topic: string;
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  readonly event: PublishedEvent<Payload>;
}

export interface EventMatch {
  readonly topic?: string;
  readonly eventType?: string;
  /** What the payload holds among other things; arrays in it are compared as a whole. */
  readonly payload?: unknown;
}

export interface WaitForOptions extends EventMatch {
  /** How many matching events to wait for. Default: 1. */
  readonly count?: number;
  /** Default: 5000. */
  readonly timeoutMs?: number;
}

/** Topics that hold records, in the order of their first one. */
export function topics(): string[] {
  return [...new Set(stored().map(({ topic }) => topic))];
}

/** Everything published, or what went to one topic, in the order of its publishing. */
export function records<Payload = Record<string, unknown>>(topic?: string): PublishedRecord<Payload>[] {
  return stored()
    .filter((one) => topic === undefined || one.topic === topic)
    .map((one) => toPublished<Payload>(one));
}

/** The events of `records()`. */
export function events<Payload = Record<string, unknown>>(topic?: string): PublishedEvent<Payload>[] {
  return records<Payload>(topic).map(({ event }) => event);
}

/** Forgets everything published so far. */
export function clear(): void {
  sharedMemoryStore().clear();
}

/**
 * Resolves with the first `count` matching events, those already published among them.
 * Rejects after `timeoutMs` with an `AssertionError` that lists what did arrive.
 */
export function waitFor<Payload = Record<string, unknown>>(
  options: WaitForOptions = {},
): Promise<PublishedEvent<Payload>[]> {
  const { count = 1, timeoutMs = 5000 } = options;
  return new Promise((resolve, reject) => {
    const look = (): void => {
      try {
        const found = find<Payload>(options);
        if (found.length < count) return;
        resolve(found.slice(0, count));
      } catch (error) {
        reject(error);
      }
      stop();
    };
    const stopListening = sharedMemoryStore().onAppend(look);
    const timer = setTimeout(() => {
      stop();
      const found = find(options).length;
      reject(failure(`${describe(options)}: ${found} of ${count} published within ${timeoutMs} ms`, options));
    }, timeoutMs);
    const stop = (): void => {
      clearTimeout(timer);
      stopListening();
    };
    look();
  });
}

/** Returns the first matching event; throws an `AssertionError` that lists what was published when there is none. */
export function assertPublished<Payload = Record<string, unknown>>(
  match: EventMatch,
): PublishedEvent<Payload> {
  const [first] = find<Payload>(match);
  if (first === undefined) throw failure(`${describe(match)} was not published`, match);
  return first;
}

/** Throws an `AssertionError` that lists what was published: nothing was expected, or nothing in this topic. */
export function assertNothingPublished(topic?: string): void {
  const match = topic === undefined ? {} : { topic };
  if (find(match).length > 0) throw failure(`nothing was to be published${inTopic(match)}`, {});
}

const stored = (): readonly StoredRecord[] => sharedMemoryStore().all();
const inTopic = ({ topic }: EventMatch): string => (topic === undefined ? '' : ` in topic "${topic}"`);

function toPublished<Payload>({ topic, record }: StoredRecord): PublishedRecord<Payload> {
  const { key, headers, timestamp, value } = record;
  let event: PublishedEvent<Payload>;
  try {
    event = JSON.parse(value.toString('utf8'));
  } catch {
    throw new AssertionError({ message: `a record in topic "${topic}" is not JSON` });
  }
  return { topic, key, headers, timestamp, event };
}

function find<Payload>(match: EventMatch): PublishedEvent<Payload>[] {
  const payload = asJson(match.payload);
  return events<Payload>(match.topic)
    .filter((event) => match.eventType === undefined || event.eventType === match.eventType)
    .filter((event) => differences(payload, event.payload, 'payload').length === 0);
}

function describe(match: EventMatch): string {
  const payload = match.payload === undefined ? '' : ' with the expected payload';
  return `${match.eventType ?? 'an event'}${payload}${inTopic(match)}`;
}

/** Names topics, types, ids and the paths that differ: never a value of a payload. */
function failure(problem: string, match: EventMatch): AssertionError {
  const expected = asJson(match.payload);
  const lines = records().map(({ topic, event }) => {
    const differs =
      event.eventType === match.eventType ? differences(expected, event.payload, 'payload') : [];
    const where = differs.length === 0 ? '' : ` (differs at ${differs.join(', ')})`;
    return `  ${topic}: ${event.eventType} ${event.eventId}${where}`;
  });
  const published = lines.length === 0 ? 'Nothing was published.' : `Published:\n${lines.join('\n')}`;
  return new AssertionError({ message: `${problem}. ${published}`, stackStartFn: failure });
}

/** As the payload looks after its way through JSON: dates are texts there. */
function asJson(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

/** Paths at which `actual` lacks what is `expected`. `undefined` expects nothing. */
function differences(expected: unknown, actual: unknown, path: string): string[] {
  if (expected === undefined || Object.is(expected, actual)) return [];
  if (!isObject(expected) || !isObject(actual) || Array.isArray(expected) !== Array.isArray(actual))
    return [path];
  if (Array.isArray(expected) && expected.length !== (actual as unknown as unknown[]).length)
    return [`${path}.length`];
  return Object.keys(expected).flatMap((key) => differences(expected[key], actual[key], `${path}.${key}`));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
