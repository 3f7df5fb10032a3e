/**
 * `svc/testing`: events that an application under test has published with `svc.broker.client: memory`, and rows that it has stored in its
 * outbox, with any broker.
 *
 * @example
 * ```ts
 * import { assertPublished, assertRolledBack, assertStored, clear, waitFor } from 'svc/testing';
 *
 * beforeEach(() => clear());
 *
 * it('publishes ORDER_CREATED', async () => {
 *   await app.inject({ method: 'POST', url: '/orders', payload: { total: 12 } });
 *   const [event] = await waitFor({ eventType: 'ORDER_CREATED' });
 *   assertPublished({ eventType: 'ORDER_CREATED', payload: { total: 12 } });
 * });
 *
 * it('stores ORDER_PLACED with its order', async () => {
 *   await placeOrder({ id: 'o1' });
 *   assertStored({ eventType: 'ORDER_PLACED', aggregateType: 'Order', aggregateId: 'o1' });
 *   await assert.rejects(placeOrder({ id: 'o2', quantity: 1000 }));
 *   assertRolledBack({ eventType: 'ORDER_PLACED', aggregateId: 'o2' });
 * });
 * ```
 */
import { type StoredRecord, sharedMemoryStore } from './adapters/memory/memory-broker.ts';
import {
  checkMatch,
  describeMatch,
  type EventMatch,
  failure,
  inTopic,
  matches,
  matchNames,
  type PublishedEvent,
  parseEvent,
  seen,
  sharedStoredRows,
  waitNames,
  waitUntil,
} from './testing/stored-events.ts';

export type { BrokerUnderTest, ContractRecord } from './testing/broker-contract.ts';
export { brokerContract, type ContractCase } from './testing/broker-contract.ts';
export {
  assertNothingStored,
  assertRolledBack,
  assertStored,
  outboxEvents,
  type StoredEvent,
  type StoredMatch,
  type StoredState,
  type WaitForStoredOptions,
  waitForStored,
} from './testing/stored-events.ts';
export type { EventMatch, PublishedEvent };

// Starts to record rows at the import, because a test's first assertion follows its first event.
sharedStoredRows();

/** A published event with its record. */
export interface PublishedRecord<Payload = Record<string, unknown>> {
  readonly topic: string;
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  readonly event: PublishedEvent<Payload>;
}

export interface WaitForOptions extends EventMatch {
  /** How many matching events to wait for. Default: 1. */
  readonly count?: number;
  /** Milliseconds. Default: 5000. */
  readonly timeoutMs?: number;
}

/** Topics with records, in the order of their first record. */
export function topics(): string[] {
  return [...new Set(stored().map(({ topic }) => topic))];
}

/** All published records, or those of one topic, in the order of publishing. */
export function records<Payload = Record<string, unknown>>(topic?: string): PublishedRecord<Payload>[] {
  return stored()
    .filter((one) => topic === undefined || one.topic === topic)
    .map((one) => toPublished<Payload>(one));
}

/** The events of `records()`. */
export function events<Payload = Record<string, unknown>>(topic?: string): PublishedEvent<Payload>[] {
  return records<Payload>(topic).map(({ event }) => event);
}

/** Deletes all recorded events and rows. Rows in the application's database stay. */
export function clear(): void {
  sharedMemoryStore().clear();
  sharedStoredRows().clear();
}

/**
 * Resolves to the first `count` matching events, including those already published.
 * Rejects after `timeoutMs` with an `AssertionError` that lists the published events.
 */
export function waitFor<Payload = Record<string, unknown>>(
  options: WaitForOptions = {},
): Promise<PublishedEvent<Payload>[]> {
  checkMatch('waitFor', options, [...matchNames, ...waitNames]);
  const { count = 1, timeoutMs = 5000 } = options;
  return waitUntil({
    count,
    timeoutMs,
    find: () => find<Payload>(options),
    onChange: sharedMemoryStore().onAppend,
    late: (found) =>
      publishedFailure(
        `${describeMatch(options)}: ${found} of ${count} published within ${timeoutMs} ms`,
        options,
      ),
  });
}

/** Returns the first matching event. Throws an `AssertionError` that lists the published events if none matches. */
export function assertPublished<Payload = Record<string, unknown>>(
  match: EventMatch,
): PublishedEvent<Payload> {
  checkMatch('assertPublished', match);
  const [first] = find<Payload>(match);
  if (first === undefined) throw publishedFailure(`${describeMatch(match)} was not published`, match);
  return first;
}

/** Throws an `AssertionError` that lists the published events if there are any, or any in `topic`. */
export function assertNothingPublished(topic?: string): void {
  const match = topic === undefined ? {} : { topic };
  if (find(match).length > 0) throw publishedFailure(`no event was expected${inTopic(match)}`, {});
}

const stored = (): readonly StoredRecord[] => seen(sharedMemoryStore().all(), 'memory');

function toPublished<Payload>({ topic, record }: StoredRecord): PublishedRecord<Payload> {
  const { key, headers, timestamp } = record;
  return { topic, key, headers, timestamp, event: parseEvent<Payload>(topic, record) };
}

function find<Payload>(match: EventMatch): PublishedEvent<Payload>[] {
  return events<Payload>(match.topic).filter((event) => matches(match, event));
}

function publishedFailure(problem: string, match: EventMatch): Error {
  return failure(problem, match, 'published', records());
}
