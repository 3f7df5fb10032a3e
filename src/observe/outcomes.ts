// observe/: what svc says of itself: log lines, the ledger of outcomes, metrics, spans.

import { createEventRows } from './event-rows.ts';

/** The ends that a call's event can have. */
export const outcomes = ['published', 'dlq', 'backup', 'outbox', 'rolled_back', 'refused', 'lost'] as const;

/**
 * The one counted end of a call's event: `published` (main topic), `dlq`, `backup`, `outbox` (stored, published later),
 * `rolled_back` (undone with the transaction of its call: nothing happened that it could tell of),
 * `refused` (never sent: protection, expression or serialization failed, or svc was closing), `lost` (every tier failed).
 */
export type Outcome = (typeof outcomes)[number];

/**
 * What became of a failed send:
 * - `retriable`: nothing was stored, a later try may succeed;
 * - `fatal`: nothing was stored, and no retry will help (authorization, an invalid topic);
 * - `too_large`: the record or batch exceeds a limit of the broker;
 * - `unknown_outcome`: the broker may have stored it (time-out, connection closed): a retry may duplicate.
 */
export const sendFailureKinds = ['retriable', 'fatal', 'too_large', 'unknown_outcome'] as const;
export type SendFailureKind = (typeof sendFailureKinds)[number];

/** What was counted. Always `calls = published + dlq + backup + outbox + rolled_back + refused + lost + inFlight`. */
export interface EventCounts extends Readonly<Record<Outcome, number>> {
  readonly calls: number;
  readonly inFlight: number;
  /** Sends after the first one of an event. */
  readonly retries: number;
  /** Events that the dead letter topic did not take. */
  readonly dlqFailures: number;
}

export interface EventTypeCounts extends EventCounts {
  /** Made once per event type, so that a reader allocates nothing. */
  readonly attributes: { readonly eventType: string };
}

export interface LedgerSnapshot extends EventCounts {
  readonly brokerErrors: Readonly<Record<SendFailureKind, number>>;
}

/** One event under way. */
export interface LedgerEntry {
  /** Counts the event's end. The first call counts; every later one changes nothing and returns `false`. */
  close(outcome: Outcome): boolean;
}

/**
 * The truth about what became of the events: integers that only grow. Every counter instrument, the report and `/metrics`
 * read them at collection. An outcome can only be counted through the entry of its event, and once.
 */
export interface Ledger {
  /** Gives event types a row of zeros, so that a first event is an increase from 0 for whoever watches. */
  declare(eventTypes: Iterable<string>): void;
  /** Counts a call; its event is in flight until the entry is closed. */
  open(eventType: string): LedgerEntry;
  retried(eventType: string): void;
  dlqFailed(eventType: string): void;
  brokerFailed(kind: SendFailureKind): void;
  snapshot(): LedgerSnapshot;
  /** Live rows, one per event type: read them, do not keep them. */
  rows(): Iterable<EventTypeCounts>;
  brokerErrors(): Readonly<Record<SendFailureKind, number>>;
}

export function createLedger(): Ledger {
  const rows = createEventRows((eventType) => new Row(eventType));
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
      row.calls++;
      return new Entry(row);
    },
    retried: (eventType) => void rows.of(eventType).retries++,
    dlqFailed: (eventType) => void rows.of(eventType).dlqFailures++,
    brokerFailed: (kind) => void brokerErrors[kind]++,
    snapshot: () => ({ ...sum(rows.all()), brokerErrors: { ...brokerErrors } }),
    rows: () => rows.all(),
    brokerErrors: () => brokerErrors,
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
    row[outcome]++;
    return true;
  }
}

class Row implements EventTypeCounts {
  readonly attributes: { readonly eventType: string };
  calls = 0;
  published = 0;
  dlq = 0;
  backup = 0;
  outbox = 0;
  rolled_back = 0;
  refused = 0;
  lost = 0;
  retries = 0;
  dlqFailures = 0;

  constructor(eventType: string) {
    this.attributes = Object.freeze({ eventType });
  }

  get inFlight(): number {
    const stored = this.published + this.dlq + this.backup + this.outbox;
    return this.calls - stored - this.rolled_back - this.refused - this.lost;
  }
}

function sum(rows: Iterable<EventTypeCounts>): EventCounts {
  const total = new Row('');
  for (const row of rows) {
    total.calls += row.calls;
    total.retries += row.retries;
    total.dlqFailures += row.dlqFailures;
    for (const outcome of outcomes) total[outcome] += row[outcome];
  }
  const { attributes: _, ...counts } = total;
  return { ...counts, inFlight: total.inFlight };
}
