// observe/: svc's own log lines, ledger of outcomes, metrics and spans.

import { shared } from '../ground/lifecycle.ts';

/** How an outcome is shown; `null`: not shown there. */
interface OutcomeTraits {
  /** Description of its counter, `svc.events.<outcome>`. */
  readonly counts: string;
  /** Second name of the counter in the specification. */
  readonly alias: string | null;
  /** For an event that did not reach its topic: the error of its span and of the failure counter. */
  readonly failure: string | null;
  /** In `svc status`. */
  readonly status: string | null;
}

/** The outcomes of a call's event. Metrics, spans, health and commands are derived from these rows. */
export const outcomeTable = {
  /** On its topic. */
  published: {
    counts: 'Events acknowledged on their topic.',
    ...{ alias: 'svc.events.published.total', failure: null, status: 'published' },
  },
  dlq: {
    counts: 'Events that ended in the dead letter topic.',
    ...{ alias: 'svc.dlq.events.total', failure: 'dead letter topic', status: 'dead letters' },
  },
  backup: {
    counts: 'Events that ended in a backup.',
    ...{ alias: null, failure: 'backup', status: 'backup' },
  },
  /** Stored, published later. */
  outbox: {
    counts: 'Events stored in the outbox, to be published from there.',
    ...{ alias: null, failure: null, status: null },
  },
  /** Rolled back with the transaction of its call: nothing happened. */
  rolled_back: {
    counts: 'Events that were rolled back with the transaction of their call.',
    ...{ alias: null, failure: null, status: null },
  },
  /** Never sent: protection, expression or serialization failed, or svc was closing. */
  refused: {
    counts: 'Events that svc refused to send: not protected, not serializable, or too late.',
    ...{ alias: null, failure: 'refused', status: null },
  },
  /** Every tier failed. */
  lost: {
    counts: 'Events that no tier stored.',
    ...{ alias: null, failure: 'lost', status: 'lost' },
  },
} as const satisfies Readonly<Record<string, OutcomeTraits>>;

/** The one counted end of a call's event. */
export type Outcome = keyof typeof outcomeTable;
export const outcomes = Object.keys(outcomeTable) as readonly Outcome[];

/**
 * The kind of a failed send:
 * - `retriable`: nothing was stored, a retry may succeed;
 * - `fatal`: nothing was stored, and no retry will help (authorization, an invalid topic);
 * - `too_large`: the record or batch exceeds a limit of the broker;
 * - `unknown_outcome`: the broker may have stored it (time-out, connection closed): a retry may duplicate.
 */
export const sendFailureKinds = ['retriable', 'fatal', 'too_large', 'unknown_outcome'] as const;
export type SendFailureKind = (typeof sendFailureKinds)[number];

/**
 * The counts. `calls` is always the sum of all outcomes and of `inFlight`. The counts of the relay are separate, as the calls
 * of its events may have been in other processes.
 */
export interface EventCounts extends Readonly<Record<Outcome, number>> {
  readonly calls: number;
  readonly inFlight: number;
  /** Sends after the first one of an event. */
  readonly retries: number;
  /** Events that the dead letter topic rejected. */
  readonly dlqFailures: number;
  /** Stored events that this process sent from the outbox. */
  readonly relayed: number;
  /** Stored events that this process gave up: FAILED. */
  readonly gaveUp: number;
}

export interface EventTypeCounts extends EventCounts {
  /** One object per event type, so that a reader allocates nothing. */
  readonly attributes: { readonly eventType: string };
}

interface LedgerSnapshot extends EventCounts {
  readonly brokerErrors: Readonly<Record<SendFailureKind, number>>;
}

export interface LedgerEntry {
  /** Counts the outcome. Only the first call counts; later ones return `false`. */
  close(outcome: Outcome): boolean;
}

/**
 * The source of all counters: integers that only grow, read at collection by instruments, the report and `/metrics`. An outcome
 * is counted once, through the entry of its event.
 */
export interface Ledger {
  /** Adds rows of zeros for event types, so that a first event is an increase from 0. */
  declare(eventTypes: Iterable<string>): void;
  /** Counts a call; its event is in flight until the entry is closed. */
  open(eventType: string): LedgerEntry;
  retried(eventType: string): void;
  dlqFailed(eventType: string): void;
  /** The relay has sent and marked a stored event: once per event. */
  relayed(eventType: string): void;
  gaveUp(eventType: string): void;
  brokerFailed(kind: SendFailureKind): void;
  snapshot(): LedgerSnapshot;
  /** Live rows, one per event type: read them, do not keep them. */
  rows(): Iterable<EventTypeCounts>;
  brokerErrors(): Readonly<Record<SendFailureKind, number>>;
  /** At the end of a worker thread: so many of the events in flight are in the backup. Later changes are not counted. */
  saved(count: number): void;
}

/** A row of a ledger in shared memory, its cells in the order of `counted`. */
export interface SharedRow {
  readonly eventType: string;
  readonly cells: Float64Array;
}

/** @param share called with each row of a worker thread, which the main thread reads even after the thread has ended */
export function createLedger(share?: (row: SharedRow) => void): Ledger {
  const rows = createEventRows((eventType) => {
    if (share === undefined) return new Row(eventType);
    const memory = new SharedArrayBuffer(counted.length * Float64Array.BYTES_PER_ELEMENT);
    const row = new Row(eventType, new Float64Array(memory));
    share({ eventType, cells: row.cells });
    return row;
  });
  const brokerErrors: Record<SendFailureKind, number> = {
    retriable: 0,
    fatal: 0,
    too_large: 0,
    unknown_outcome: 0,
  };
  return {
    declare: (eventTypes) => {
      for (const eventType of eventTypes) rows.of(eventType);
    },
    open: (eventType) => {
      const row = rows.of(eventType);
      const entry = new Entry(row);
      row.add('calls');
      return entry;
    },
    retried: (eventType) => rows.of(eventType).add('retries'),
    dlqFailed: (eventType) => rows.of(eventType).add('dlqFailures'),
    relayed: (eventType) => rows.of(eventType).add('relayed'),
    gaveUp: (eventType) => rows.of(eventType).add('gaveUp'),
    brokerFailed: (kind) => void brokerErrors[kind]++,
    snapshot: () => ({ ...totalOf(rows.all()), brokerErrors: { ...brokerErrors } }),
    rows: () => rows.all(),
    brokerErrors: () => brokerErrors,
    saved(count) {
      let left = count;
      for (const row of rows.all()) {
        const some = Math.min(left, row.inFlight);
        row.add('backup', some);
        left -= some;
      }
    },
  };
}

class Entry implements LedgerEntry {
  private row: Row | undefined;

  constructor(row: Row) {
    this.row = row;
  }

  close(outcome: Outcome): boolean {
    const row = this.row;
    if (row === undefined) return false;
    this.row = undefined;
    row.add(outcome);
    return true;
  }
}

/** One cell each in a row, outcomes first. */
const counted = [...outcomes, ...(['calls', 'retries', 'dlqFailures', 'relayed', 'gaveUp'] as const)];
type Counted = (typeof counted)[number];
const cellOf = Object.fromEntries(counted.map((name, cell) => [name, cell])) as Record<Counted, number>;

class Cells {
  readonly attributes: { readonly eventType: string };
  readonly cells: Float64Array;

  static {
    for (const [cell, name] of counted.entries()) {
      const get = function (this: Cells): number {
        return this.cells[cell] as number;
      };
      Object.defineProperty(Cells.prototype, name, { get });
    }
  }

  constructor(eventType: string, cells: Float64Array = new Float64Array(counted.length)) {
    this.attributes = Object.freeze({ eventType });
    this.cells = cells;
  }

  add(name: Counted, count = 1): void {
    (this.cells[cellOf[name]] as number) += count;
  }

  get inFlight(): number {
    let left = this.cells[cellOf.calls] as number;
    for (let cell = 0; cell < outcomes.length; cell++) left -= this.cells[cell] as number;
    return left;
  }

  /**
   * Counts everything in flight of an ended thread as this outcome. Nothing else may count in the row from then on.
   * @returns the number of these events
   */
  end(outcome: Outcome): number {
    const { inFlight } = this;
    this.add(outcome, inFlight);
    return inFlight;
  }
}

/** With the getters that the class defines by name. */
type Row = Cells & Readonly<Record<Counted, number>>;
const Row = Cells as unknown as new (eventType: string, cells?: Float64Array) => Row;

/** A row that another thread has shared. */
export function readRow({ eventType, cells }: SharedRow): EventTypeCounts & Pick<Row, 'end'> {
  return new Row(eventType, cells);
}

export function totalOf(rows: Iterable<EventTypeCounts>): EventCounts {
  const total = new Row('');
  for (const row of rows) for (const name of counted) total.add(name, row[name]);
  const counts = Object.fromEntries(counted.map((name) => [name, total[name]])) as Record<Counted, number>;
  return { ...counts, inFlight: total.inFlight };
}

/** The limit of separate event types, as they can come from application data. */
const maxEventTypes = 1000;

/** The row of every event type beyond `maxEventTypes`. */
const otherEventType = 'other';

/** One row per event type, created on first use: at most `maxEventTypes`, and one for the rest. */
interface EventRows<Row> {
  of(eventType: string): Row;
  all(): Iterable<Row>;
}

function createEventRows<Row>(make: (eventType: string) => Row): EventRows<Row> {
  const rows = new Map<string, Row>();
  const add = (eventType: string): Row => {
    const row = make(eventType);
    rows.set(eventType, row);
    return row;
  };
  return {
    of: (eventType) =>
      rows.get(eventType) ??
      (rows.size < maxEventTypes ? add(eventType) : (rows.get(otherEventType) ?? add(otherEventType))),
    all: () => rows.values(),
  };
}

interface EventTypeDurations {
  readonly attributes: { readonly eventType: string };
  readonly histogram: Histogram;
}

/** A second target of durations: the histogram of the application's meter provider. */
type DurationListener = (seconds: number, attributes: { readonly eventType: string }) => void;

/** The time from the hand-over to the publisher to the outcome, per event type. */
export interface PublishDurations {
  /** Call it once per event that reached the publisher. */
  record(eventType: string, seconds: number): void;
  /** Sets the one listener; `undefined` removes it. It must not throw. */
  listen(listener: DurationListener | undefined): void;
  rows(): Iterable<EventTypeDurations>;
}

export function createPublishDurations(): PublishDurations {
  const rows = createEventRows<EventTypeDurations>((eventType) => ({
    attributes: Object.freeze({ eventType }),
    histogram: createHistogram(),
  }));
  let listener: DurationListener | undefined;
  return {
    record: (eventType, seconds) => {
      const row = rows.of(eventType);
      row.histogram.record(seconds);
      listener?.(seconds, row.attributes);
    },
    listen: (next) => {
      listener = next;
    },
    rows: () => rows.all(),
  };
}

/** Upper bounds in seconds, from the OpenTelemetry messaging conventions; the last bucket is unbounded. */
export const durationBoundsSeconds: readonly number[] = [
  0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
];

/** Counts of values in fixed buckets. A value equal to a bound belongs to the bucket that ends there. */
interface Histogram {
  /** Ignores NaN; negative values (a clock that stepped back) count as 0. */
  record(value: number): void;
  readonly count: number;
  readonly sum: number;
  /** 0 without values. */
  readonly max: number;
  /** One count per bound, and one above the last; not cumulative. */
  readonly buckets: readonly number[];
}

function createHistogram(): Histogram {
  const bounds = durationBoundsSeconds;
  const buckets: number[] = new Array(bounds.length + 1).fill(0);
  const histogram = {
    count: 0,
    sum: 0,
    max: 0,
    buckets,
    record(value: number): void {
      if (Number.isNaN(value)) return;
      const recorded = value > 0 ? value : 0;
      let index = 0;
      while (index < bounds.length && recorded > (bounds[index] as number)) index++;
      (buckets[index] as number)++;
      histogram.count++;
      histogram.sum += recorded;
      if (recorded > histogram.max) histogram.max = recorded;
    },
  };
  return histogram;
}

export const maxRecentDlqEvents = 10;

export interface RecentDlqEvent {
  readonly eventType: string;
  /** Name of the root cause and one line for an operator. */
  readonly failureReason: string;
  readonly timestampMs: number;
}

/**
 * The states of a target, shown in the log, `svc check`, `/metrics`, the console and the documentation. `level`: the severity
 * for a process; `isAway`: the module may be loaded later, or in another thread.
 */
export const targetStates = {
  /** The file contains the function; `svc check` only, which runs nothing. */
  found: { level: 'fine', isAway: false },
  patched: { level: 'fine', isAway: false },
  pending: { level: 'warning', isAway: true },
  /** Its module was not loaded in time, or another file is loaded in its place. */
  unloaded: { level: 'critical', isAway: true },
  failed: { level: 'critical', isAway: false },
} as const;
export type TargetState = keyof typeof targetStates;

// The results of the events that `consumeOnce` took, and the instruments that show them.

/**
 * The result of an event. `repeated`: the inbox knew it. `ignored`: its type has no handler. `returned`: its partition has moved or
 * this consumer has stopped, so it is handled elsewhere or later.
 */
export const consumedOutcomes = ['handled', 'repeated', 'ignored', 'dead_letter', 'returned'] as const;
export type ConsumedOutcome = (typeof consumedOutcomes)[number];

/** Integers that only grow, except `inHand`. `taken` is the sum of all outcomes and of `inHand`. */
export interface ConsumedCounts extends Readonly<Record<ConsumedOutcome, number>> {
  readonly taken: number;
  readonly retries: number;
  readonly inHand: number;
}

export interface ConsumedRow extends Record<ConsumedOutcome, number> {
  readonly attributes: { readonly consumer: string; readonly eventType: string };
  taken: number;
  retries: number;
  /** Seconds spent in handlers and their transactions. */
  seconds: number;
}

/** The events of one consumer name in this process. */
export interface ConsumedEvents extends EventRows<ConsumedRow> {
  /** Partitions that wait for a retry, or for a handler beyond its time limit. */
  waiting: number;
}

const consumers = shared('consumed-events', () => new Map<string, ConsumedEvents>());

export function consumedBy(consumer: string): ConsumedEvents {
  const known = consumers.get(consumer);
  if (known !== undefined) return known;
  const rows = createEventRows<ConsumedRow>((eventType) => ({
    attributes: Object.freeze({ consumer, eventType }),
    ...{ handled: 0, repeated: 0, ignored: 0, dead_letter: 0, returned: 0 },
    ...{ taken: 0, retries: 0, seconds: 0 },
  }));
  const made: ConsumedEvents = { ...rows, waiting: 0 };
  consumers.set(consumer, made);
  return made;
}

export function allConsumed(): Iterable<readonly [consumer: string, events: ConsumedEvents]> {
  return consumers;
}
