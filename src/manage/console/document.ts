import type { BackupState, BufferState, CaptureTarget } from '../../observe/metrics.ts';
import type { EventCounts } from '../../observe/outcomes.ts';
import type { DeadLetters, Health, Info, RecoveryRun } from '../controls.ts';
import type { BrokerView, CircuitState } from '../metrics-shapes.ts';

/** What the page of the console shows, in one answer. It holds nothing of what an event holds. */
export interface ConsoleDocument {
  /** Unix time in milliseconds. */
  readonly atMs: number;
  readonly process: ProcessFacts;
  readonly health: Health;
  /** What became of the calls since the start, and what the relay of this process did with stored events. */
  readonly counts: EventCounts;
  readonly queue: BufferState;
  readonly backup: BackupState;
  readonly breakers: { readonly broker: CircuitState; readonly outbox: CircuitState | null };
  readonly connections: BrokerView;
  /** The busiest, {@link mostTypes} at most. */
  readonly types: readonly TypeFacts[];
  readonly typeCount: number;
  /** Of the busiest types; none where the page has them already. */
  readonly trends: readonly Trend[];
  readonly targets: readonly CaptureTarget[];
  readonly deadLetters: DeadLetters;
  /** Points that the page does not have yet. */
  readonly history: History;
  readonly runs: { readonly deadLetters: LatestRuns; readonly backup: LatestRuns };
  /** What may be asked for over HTTP, by the configuration. */
  readonly actions: readonly string[];
}

export interface ProcessFacts extends Info {
  readonly host: string;
  readonly pid: number;
  readonly node: string;
  /** `deployment.environment.name` of OpenTelemetry's resource, or `NODE_ENV`. */
  readonly environment: string | null;
  readonly upSeconds: number;
}

/** Events of one type, those of the relay too. */
export interface TypeFacts {
  readonly eventType: string;
  readonly published: number;
  readonly failed: number;
  readonly deadLetters: number;
  readonly meanMs: number | null;
  readonly maxMs: number | null;
}

/** How many events of a type there were within each step of ten seconds, the last ten minutes at most. */
export interface Trend {
  readonly eventType: string;
  readonly events: readonly number[];
}

interface LatestRuns {
  readonly run: RecoveryRun | null;
  readonly dryRun: RecoveryRun | null;
}

/** What was counted within each step of ten seconds, a column each. */
export interface History {
  /** End of the step, as Unix time in milliseconds. */
  readonly atMs: readonly number[];
  readonly seconds: readonly number[];
  readonly published: readonly number[];
  readonly failed: readonly number[];
  /** `null`: nothing was sent. */
  readonly meanMs: readonly (number | null)[];
  /** Within which 95 of 100 were, by the buckets of the histogram. */
  readonly p95Ms: readonly (number | null)[];
  /** Events in memory, in the local backup, and in the outbox. */
  readonly queued: readonly number[];
  readonly backup: readonly number[];
  readonly outbox: readonly (number | null)[];
  /** Breaker in front of the broker: position in `circuitStates`. */
  readonly circuit: readonly number[];
}

export const mostTypes = 100;
