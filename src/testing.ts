/**
 * `svc/testing`: the events that an application under test has published with `svc.broker.client: memory`, and the events that
 * it has stored in its outbox, with any broker.
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
import { AssertionError } from 'node:assert';
import { type StoredRecord, sharedMemoryStore } from './adapters/memory/memory-broker.ts';
import type { ConsumedEvent } from './consume/handle-event.ts';
import { readEnvelope } from './consumer/decrypt-fields.ts';
import { SvcError } from './ground/errors.ts';
import { shared } from './ground/lifecycle.ts';
import { optionsProblem } from './ground/names.ts';
import { rowWatch } from './outbox/join.ts';
import type { OutboxRow } from './outbox/outbox-row.ts';
import { runningService } from './publish/api/publish.ts';
import type { TransactionEnd } from './transaction/driver.ts';

export type { BrokerUnderTest, ContractRecord } from './testing/broker-contract.ts';
export { brokerContract, type ContractCase } from './testing/broker-contract.ts';

const matchNames: readonly (keyof EventMatch)[] = ['topic', 'eventType', 'payload'];

// Starts to record rows at the import, because a test's first assertion follows its first event.
sharedStoredRows();

/** One published event, as its consumers read it. Unknown values are `null`. */
export type PublishedEvent<Payload = Record<string, unknown>> = ConsumedEvent<Payload>;

export interface EventMatch {
  readonly topic?: string;
  readonly eventType?: string;
  /** A part of the payload; arrays in it are compared as a whole. */
  readonly payload?: unknown;
}

/** An event and its record. */
export interface PublishedRecord<Payload = Record<string, unknown>> {
  readonly topic: string;
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  readonly event: PublishedEvent<Payload>;
}

export interface WaitForOptions extends EventMatch {
  /** Number of matching events to wait for. Default: 1. */
  readonly count?: number;
  /** Milliseconds. Default: 5000. */
  readonly timeoutMs?: number;
}

/** Topics with records, in the order of their first record. */
export function topics(): string[] {
  return [...new Set(stored().map(({ topic }) => topic))];
}

/** All published records, or those of one topic, in order of publication. */
export function records<Payload = Record<string, unknown>>(topic?: string): PublishedRecord<Payload>[] {
  return stored()
    .filter((one) => topic === undefined || one.topic === topic)
    .map((one) => toPublished<Payload>(one));
}

/** The events of `records()`. */
export function events<Payload = Record<string, unknown>>(topic?: string): PublishedEvent<Payload>[] {
  return records<Payload>(topic).map(({ event }) => event);
}

/** Forgets all published and stored events so far. Rows in the application's database stay. */
export function clear(): void {
  sharedMemoryStore().clear();
  sharedStoredRows().clear();
}

/**
 * Resolves with the first `count` matching events, earlier ones included. Rejects after `timeoutMs` with an `AssertionError`
 * that lists the published events.
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

/** Throws an `AssertionError` that lists the published events if there are any, or any in this topic. */
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

/** One event of a target with `outbox`, as it was written into the application's transaction. */
export interface StoredEvent<Payload = Record<string, unknown>> extends PublishedEvent<Payload> {
  readonly aggregateType: string;
  readonly aggregateId: string;
  /** The topic it will be sent to. */
  readonly topic: string;
  /** The record key. */
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  /** `open`: in a transaction that has not ended. */
  readonly state: StoredState;
}

export interface StoredMatch extends EventMatch {
  readonly aggregateType?: string;
  readonly aggregateId?: string;
  readonly state?: StoredState;
}

export interface WaitForStoredOptions extends StoredMatch {
  /** Number of matching events to wait for. Default: 1. */
  readonly count?: number;
  /** Milliseconds. Default: 5000. */
  readonly timeoutMs?: number;
}

const storedNames: readonly string[] = [...matchNames, 'aggregateType', 'aggregateId', 'state'];

/** The matching events in the order of their calls, whatever happened to their transactions. */
export function outboxEvents<Payload = Record<string, unknown>>(
  match: StoredMatch = {},
): StoredEvent<Payload>[] {
  checkMatch('outboxEvents', match, storedNames);
  return findStored<Payload>(match);
}

/**
 * Returns the first matching event whose transaction has committed, or with `state: 'open'` one in an open transaction. Throws
 * an `AssertionError` that lists the stored events if none matches.
 */
export function assertStored<Payload = Record<string, unknown>>(match: StoredMatch): StoredEvent<Payload> {
  checkMatch('assertStored', match, storedNames);
  return assertState<Payload>(match, match.state ?? 'committed');
}

/** Returns the first matching event that was rolled back with its transaction or its savepoint. Throws if none matches. */
export function assertRolledBack<Payload = Record<string, unknown>>(
  match: Omit<StoredMatch, 'state'>,
): StoredEvent<Payload> {
  checkMatch('assertRolledBack', match, storedNames);
  return assertState<Payload>(match, 'rolled_back');
}

/** Throws if a matching event exists that was not rolled back, and lists the stored events. */
export function assertNothingStored(match: StoredMatch = {}): void {
  checkMatch('assertNothingStored', match, storedNames);
  const found = findStored(match).filter(({ state }) => match.state !== undefined || state !== 'rolled_back');
  if (found.length === 0) return;
  const what = match.eventType ?? 'nothing';
  const problem = what === 'nothing' ? 'no event was expected' : `${what} was not to be stored`;
  throw storedFailure(`${problem}${inTopic(match)}`, match);
}

/** Resolves with the first `count` matching events whose transactions have committed. Rejects after `timeoutMs`. */
export function waitForStored<Payload = Record<string, unknown>>(
  options: WaitForStoredOptions = {},
): Promise<StoredEvent<Payload>[]> {
  checkMatch('waitForStored', options, [...storedNames, ...waitNames]);
  const { count = 1, timeoutMs = 5000, state = 'committed' } = options;
  const match = { ...options, state };
  return waitUntil({
    count,
    timeoutMs,
    find: () => findStored<Payload>(match),
    onChange: sharedStoredRows().onChange,
    late: (found) =>
      storedFailure(
        `${describeMatch(match)}: ${found} of ${count} ${inWords[state]} within ${timeoutMs} ms`,
        match,
      ),
  });
}

const inWords: Readonly<Record<StoredState, string>> = {
  open: 'in an open transaction',
  committed: 'committed',
  rolled_back: 'rolled back',
  unknown: 'left without an answer to its COMMIT',
};

function assertState<Payload>(given: StoredMatch, state: StoredState): StoredEvent<Payload> {
  const match = { ...given, state };
  const [first] = findStored<Payload>(match);
  if (first === undefined) throw storedFailure(`${describeMatch(match)} was not ${inWords[state]}`, match);
  return first;
}

function findStored<Payload>(match: StoredMatch): StoredEvent<Payload>[] {
  return seen(sharedStoredRows().all())
    .filter(({ state }) => match.state === undefined || match.state === state)
    .filter(({ row }) => match.topic === undefined || row.topic === match.topic)
    .filter(({ row }) => aggregateDifferences(match, row).length === 0)
    .map((one) => toStored<Payload>(one))
    .filter((event) => matches(match, event));
}

function toStored<Payload>({ row, state }: StoredRow): StoredEvent<Payload> {
  const { topic, key, headers, aggregateType, aggregateId, payload } = row;
  return {
    ...parseEvent<Payload>(topic, { value: payload, headers }),
    aggregateType,
    aggregateId,
    topic,
    key,
    headers,
    state,
  };
}

function aggregateDifferences(match: StoredMatch, row: StoredRow['row']): string[] {
  const fields = ['aggregateType', 'aggregateId'] as const;
  return fields.filter((field) => match[field] !== undefined && match[field] !== row[field]);
}

function storedFailure(problem: string, match: StoredMatch): Error {
  const found = sharedStoredRows()
    .all()
    .map(
      ({ row, state }): Listed => ({
        ...{ topic: row.topic, event: parseEvent(row.topic, { value: row.payload, headers: row.headers }) },
        ...{ remark: `, ${inWords[state]}`, differs: aggregateDifferences(match, row) },
      }),
    );
  return failure(problem, match, 'stored', found);
}

/** The state of a row's transaction. `unknown`: its COMMIT was sent, but never answered. */
export type StoredState = 'open' | TransactionEnd;

interface StoredRow {
  readonly row: OutboxRow;
  state: StoredState;
}

/** The rows that this process has stored, in the order of the calls. */
interface StoredRows {
  all(): readonly StoredRow[];
  clear(): void;
  /** Calls `listener` for each new row and at the end of its transaction; returns a function that stops it. */
  onChange(listener: () => void): () => void;
}

function watchRows(): StoredRows {
  let rows: StoredRow[] = [];
  const listeners = new Set<() => void>();
  const changed = (): void => {
    for (const listener of [...listeners]) listener();
  };
  rowWatch().onRow = (row) => {
    const stored: StoredRow = { row, state: 'open' };
    rows.push(stored);
    changed();
    return (how) => {
      stored.state = how;
      changed();
    };
  };
  return {
    all: () => [...rows],
    clear() {
      rows = [];
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** One per process, from the first call on. */
function sharedStoredRows(): StoredRows {
  return shared('stored-rows', watchRows);
}

/** Throws an `AssertionError` that names the topic if the value is not JSON. */
function parseEvent<Payload>(
  topic: string,
  record: {
    readonly value: Buffer;
    readonly headers: Readonly<Record<string, string>>;
    readonly timestamp?: number;
  },
): PublishedEvent<Payload> {
  try {
    return readEnvelope(record);
  } catch {
    throw new AssertionError({ message: `a record in topic "${topic}" is not JSON` });
  }
}

/**
 * Returns `all`. If it is empty because nothing can be seen in this process, throws, so that no assertion passes and no test
 * waits in vain.
 * @throws SvcError `SVC_PUBLISH_NOT_RUNNING` if svc does not run; `AssertionError` if it publishes to another broker than
 * `needs`.
 */
function seen<T>(all: readonly T[], needs?: string): readonly T[] {
  if (all.length > 0) return all;
  const service = runningService.current;
  if (service === undefined) {
    throw new SvcError(
      'SVC_PUBLISH_NOT_RUNNING',
      "svc is not running in this process, so svc/testing sees no events. Start the tests with NODE_OPTIONS='--import svc/register' (docs/testing.md). If you do, a line of svc above names the reason",
    );
  }
  if (needs !== undefined && service.brokerClient !== needs) {
    throw new AssertionError({
      message: `svc publishes with svc.broker.client: ${service.brokerClient}, and svc/testing sees what it publishes with ${needs}: set SVC_BROKER_CLIENT=${needs} for the tests`,
    });
  }
  return all;
}

/** A condition that is checked now and at each change. */
interface Awaited<T> {
  readonly count: number;
  readonly timeoutMs: number;
  readonly find: () => T[];
  /** Calls `listener` at each change; returns a function that stops it. */
  readonly onChange: (listener: () => void) => () => void;
  readonly late: (foundCount: number) => Error;
}

/** Resolves with the first `count` results of `find`; rejects after `timeoutMs`, and if `find` throws. */
function waitUntil<T>({ count, timeoutMs, find, onChange, late }: Awaited<T>): Promise<T[]> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      try {
        const found = find();
        if (found.length < count) return;
        resolve(found.slice(0, count));
      } catch (error) {
        reject(error);
      }
      stop();
    };
    const stopListening = onChange(look);
    const timer = setTimeout(() => {
      stop();
      reject(late(find().length));
    }, timeoutMs);
    const stop = (): void => {
      clearTimeout(timer);
      stopListening();
    };
    look();
  });
}

/** The options of a wait. */
const waitNames = ['count', 'timeoutMs'] as const;

/**
 * A mistyped name would match every event.
 * @throws SvcError `SVC_TESTING_MATCH`
 */
function checkMatch(of: string, given: unknown, names: readonly string[] = matchNames): void {
  const problem = optionsProblem(given, names);
  if (problem !== undefined) throw new SvcError('SVC_TESTING_MATCH', `${of}(): ${problem}`);
}

/** The compared part of any event, published or stored. */
interface Comparable {
  readonly eventType: string;
  readonly payload: unknown;
}

/** An event in the list of a failed assertion. */
interface Listed {
  readonly topic: string;
  readonly event: Comparable & { readonly eventId: string };
  /** Its state and further differences: names, never payload values. */
  readonly remark?: string;
  readonly differs?: readonly string[];
}

function matches({ eventType, payload }: EventMatch, event: Comparable): boolean {
  if (eventType !== undefined && event.eventType !== eventType) return false;
  return differences(asJson(payload), event.payload, 'payload').length === 0;
}

function describeMatch(match: EventMatch): string {
  const payload = match.payload === undefined ? '' : ' with the expected payload';
  return `${match.eventType ?? 'an event'}${payload}${inTopic(match)}`;
}

function inTopic({ topic }: EventMatch): string {
  return topic === undefined ? '' : ` in topic "${topic}"`;
}

/** Names topics, types, ids and differing paths, never payload values. */
function failure(
  problem: string,
  match: EventMatch,
  done: 'published' | 'stored',
  found: readonly Listed[],
): AssertionError {
  const expected = asJson(match.payload);
  const lines = found.map(({ topic, event, remark = '', differs = [] }) => {
    const isMeant = event.eventType === match.eventType;
    const paths = isMeant ? [...differs, ...differences(expected, event.payload, 'payload')] : [];
    const where = paths.length === 0 ? '' : ` (differs at ${paths.join(', ')})`;
    return `  ${topic}: ${event.eventType} ${event.eventId}${remark}${where}`;
  });
  const title = `${done[0]?.toUpperCase()}${done.slice(1)}`;
  const list = lines.length === 0 ? `Nothing was ${done}.` : `${title}:\n${lines.join('\n')}`;
  return new AssertionError({ message: `${problem}. ${list}`, stackStartFn: failure });
}

/** The payload after its way through JSON, which turns dates into texts. */
function asJson(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

/** Paths at which `actual` lacks something of `expected`. `undefined` expects nothing. */
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
