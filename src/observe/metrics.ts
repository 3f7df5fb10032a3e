import type { PublishDurations } from './durations.ts';
import type { Ledger } from './outcomes.ts';

/**
 * What became of a target: one word each, in the log, `svc check`, `/metrics`, the console and the documentation.
 *
 * - `found`: reading its file shows the function, and nothing runs: `svc check` only.
 * - `patched`: its calls make events.
 * - `pending`: its module is not loaded yet.
 * - `unloaded`: its module was not loaded in time, or another file is loaded in its place.
 * - `failed`: it cannot be captured.
 */
export type TargetState = 'found' | (typeof runningStates)[number];

/** Those that a process counts. */
export const runningStates = ['patched', 'pending', 'unloaded', 'failed'] as const;

/** One captured function, as the capture report knows it. */
export interface CaptureTarget {
  /** As configured, such as `./src/orders.ts#createOrder`. */
  readonly target: string;
  readonly state: TargetState;
  /** Those that have ended: with an event, or as one of the next two. */
  readonly calls: number;
  readonly failed: number;
  readonly skipped: number;
  /** Why it failed, or is unloaded; for people. */
  readonly reason?: string | undefined;
  /** What else a reader should know. */
  readonly notes?: readonly string[];
}

/** Events in memory until they are acknowledged. */
export interface BufferState {
  readonly events: number;
  readonly bytes: number;
  /** Events for which there was no room. */
  readonly overflows: number;
}

/** The local backup, as far as this process knows it: it counts anew what others do there. */
export interface BackupState {
  /** Files with events in them, one or many. */
  readonly files: number;
  readonly events: number;
  readonly bytes: number;
  /** Events beside them that no topic takes, and that somebody has to see to. */
  readonly tooLarge: number;
  /** Events that this process sent to their topics from there. */
  readonly drained: number;
  /** How long the oldest event has waited that new ones wait behind, in milliseconds; 0 where none does. */
  readonly oldestMs: number;
  /** Why the folder cannot be used; one line. `null`: it can. Missing: no local backup is configured. */
  readonly problem?: string | null;
}

/** What event ids carry at the moment. */
export interface WorkerState {
  readonly workerId: number;
  /** Such as `kafka` or `host`. */
  readonly source: string;
}

/** The outbox, as far as this process knows it. `null`: not known, or not there. */
export interface OutboxState {
  /** PENDING rows. */
  pending(): number | null;
  /** Age of the oldest of them, in milliseconds. */
  oldestPendingMs(): number | null;
  /** FAILED rows: nothing sends them until somebody acts. */
  failed(): number | null;
  /** When the relay of this process last took a row to its topic, as Unix time in milliseconds. */
  lastRelayedMs(): number | null;
  /** Events of transactions whose COMMIT had no answer, or was out of sight. */
  unconfirmed(): number;
  /** Events that were stored by themselves, as their calls were in no transaction. */
  unjoined(): number;
  /** As {@link MetricSources.circuit}; `null` where no relay runs in this process. */
  circuit(): number | null;
}

/** So many dead letters are remembered. */
export const maxRecentDlqEvents = 10;

/** An event in the dead letter topic. */
export interface RecentDlqEvent {
  readonly eventType: string;
  /** Name of the root cause and one line for an operator. */
  readonly failureReason: string;
  readonly timestampMs: number;
}

/** What the instruments and the metrics report read. */
export interface MetricSources {
  readonly ledger: Ledger;
  readonly durations: PublishDurations;
  /** 0 closed, 1 open, 2 half-open. */
  circuit(): number;
  buffer(): BufferState;
  backup(): BackupState;
  /** `undefined` where ids have no worker id. */
  worker(): WorkerState | undefined;
  captureTargets(): readonly CaptureTarget[];
  /** For how long brokers hold this process back by a quota, in milliseconds, as they said; 0 when it is over. Default: nothing is known. */
  throttledMs?(): number;
  /** When the broker last acknowledged an event of a call; `null`: it has none yet. */
  lastPublishedMs(): number | null;
  /** Dead letters that no recovery has sent yet, as last counted; `null`: not known. It may have them counted anew, aside. */
  dlqWaiting(): number | null;
  /** The newest first, {@link maxRecentDlqEvents} at most. */
  recentDlqEvents(): readonly RecentDlqEvent[];
  /** Only where there is an outbox. */
  readonly outbox?: OutboxState | undefined;
}

export type Attributes = Readonly<Record<string, string>>;
export type Observe = (value: number, attributes: Attributes) => void;

interface Named {
  /** OpenTelemetry name. */
  readonly name: string;
  /** Second name in the specification. It is exported as well where it differs in Prometheus too. */
  readonly alias?: string;
  /** Name in the Prometheus text format, `_bucket`, `_sum` and `_count` of a histogram apart. */
  readonly prometheusName: string;
  readonly prometheusAlias?: string;
  /** UCUM. */
  readonly unit: string;
  readonly description: string;
  /** Keys of the attributes, which are the labels in Prometheus. */
  readonly attributeKeys: readonly string[];
}

/** Read from the sources at collection, by whoever collects. */
export interface ObservedInstrument extends Named {
  readonly kind: 'counter' | 'upDownCounter' | 'gauge';
  read(sources: MetricSources, observe: Observe): void;
}

/** Recorded per event, in seconds. */
export interface DurationInstrument extends Named {
  readonly kind: 'histogram';
}

/** OpenTelemetry names of an instrument. An alias that Prometheus could not tell apart would be scraped twice: left out. */
export function exportedNames(instrument: ObservedInstrument): readonly string[] {
  return instrument.alias !== undefined && instrument.prometheusAlias !== undefined
    ? [instrument.name, instrument.alias]
    : [instrument.name];
}
