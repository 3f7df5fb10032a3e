import { shared } from '../ground/lifecycle.ts';
import type { OutboxRow } from '../outbox/outbox-row.ts';
import { rowWatch } from '../outbox/row-watch.ts';
import type { TransactionEnd } from '../transaction/driver.ts';
import {
  checkMatch,
  describeMatch,
  type EventMatch,
  failure,
  inTopic,
  type Listed,
  matches,
  matchNames,
  type PublishedEvent,
  parseEvent,
  seen,
  waitNames,
  waitUntil,
} from './published-event.ts';

/** One event of a target with `outbox`, as it was written into the application's transaction. */
export interface StoredEvent<Payload = Record<string, unknown>> extends PublishedEvent<Payload> {
  readonly aggregateType: string;
  readonly aggregateId: string;
  /** Where it is to be sent. */
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
  /** How many matching events to wait for. Default: 1. */
  readonly count?: number;
  /** Default: 5000. */
  readonly timeoutMs?: number;
}

const storedNames: readonly string[] = [...matchNames, 'aggregateType', 'aggregateId', 'state'];

/** Those that match, whatever became of their transactions, in the order of their calls. */
export function outboxEvents<Payload = Record<string, unknown>>(
  match: StoredMatch = {},
): StoredEvent<Payload>[] {
  checkMatch('outboxEvents', match, storedNames);
  return find<Payload>(match);
}

/**
 * Returns the first matching event whose transaction has committed; with `state: 'open'` one in a transaction that has not ended.
 * Throws an `AssertionError` that lists what there was when there is none.
 */
export function assertStored<Payload = Record<string, unknown>>(match: StoredMatch): StoredEvent<Payload> {
  checkMatch('assertStored', match, storedNames);
  return assertState<Payload>(match, match.state ?? 'committed');
}

/** Returns the first matching event that was rolled back with its transaction or its savepoint; throws when there is none. */
export function assertRolledBack<Payload = Record<string, unknown>>(
  match: Omit<StoredMatch, 'state'>,
): StoredEvent<Payload> {
  checkMatch('assertRolledBack', match, storedNames);
  return assertState<Payload>(match, 'rolled_back');
}

/** Throws when there is a matching event that was not rolled back, and lists what there was. */
export function assertNothingStored(match: StoredMatch = {}): void {
  checkMatch('assertNothingStored', match, storedNames);
  const found = find(match).filter(({ state }) => match.state !== undefined || state !== 'rolled_back');
  if (found.length === 0) return;
  const what = match.eventType ?? 'nothing';
  const problem = what === 'nothing' ? 'nothing was to be stored' : `${what} was not to be stored`;
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
    find: () => find<Payload>(match),
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
  const [first] = find<Payload>(match);
  if (first === undefined) throw storedFailure(`${describeMatch(match)} was not ${inWords[state]}`, match);
  return first;
}

function find<Payload>(match: StoredMatch): StoredEvent<Payload>[] {
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

/** Where the transaction of a row stands. `unknown`: its COMMIT was sent, and the answer never came. */
export type StoredState = 'open' | TransactionEnd;

interface StoredRow {
  readonly row: OutboxRow;
  state: StoredState;
}

/** The rows that this process has stored, in the order of the calls. */
interface StoredRows {
  all(): readonly StoredRow[];
  clear(): void;
  /** Calls `listener` when a row comes and when its transaction ends; the result stops it. */
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

/** Of this process, from the first call on. */
export function sharedStoredRows(): StoredRows {
  return shared('stored-rows', watchRows);
}
