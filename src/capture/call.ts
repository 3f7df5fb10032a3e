import type { Context } from '@opentelemetry/api';
import type { Phase } from '../config/schema/target.ts';
import type { Severity } from '../ground/event-fields.ts';
import type { Scope } from '../transaction/transaction.ts';
import type { ExpressionScope } from './expression/values.ts';

/** One finished (or, in phase BEFORE, starting) call of a captured function. */
export interface Call {
  readonly plan: CapturePlan;
  readonly self: unknown;
  readonly args: readonly unknown[];
  /** What the function returned or resolved to; `null` in phase BEFORE and when it threw. Throws where it is not known yet. */
  readonly result: unknown;
  /** What the function threw or rejected with; `undefined` when it did not. */
  readonly error: unknown;
  /** The OpenTelemetry context that was active when the function was called, where it had to be kept; else the active one counts. */
  readonly context?: Context | undefined;
  /** Why no event can be made of the call: its `when` failed. It counts as refused. */
  readonly refusal?: unknown;
  /** Where a function ran that takes part in transactions; else the current one counts. */
  readonly scope?: Scope | undefined;
  /**
   * Before a COMMIT, where the result is not known: its event may as well be made when the function has ended, and is then, if this is
   * called in place of counting it.
   */
  readonly postpone?: (() => void) | undefined;
  /** The captured calls around this one and inside it. Only the first calls of a target have it. */
  readonly nest?: Nest | undefined;
  /**
   * True when the caller can wait for the event (the function returned a promise, a thenable or an async iterator, or calls back later).
   * False for a synchronous function: it is never blocked.
   */
  readonly canWait: boolean;
}

/** A watched call, and the watched call around it. It holds no argument and no result. */
export interface Nest {
  readonly plan: CapturePlan;
  readonly outer: Nest | undefined;
  /** Its event is made: later calls are not inside it. */
  isOver: boolean;
  /** Events of captured calls inside it. */
  readonly inner: NestedEvent[];
}

export interface NestedEvent {
  readonly plan: CapturePlan;
  /** `undefined`: the key is the event id. */
  readonly key: string | undefined;
}

/**
 * What happens with a call: envelope, protection, publication. Runs on the caller's path.
 *
 * Returns a promise only when the caller has to wait for the event (`svc.broker.async-mode: false` and `canWait`).
 * Neither throws nor rejects, unless the plan says `failOnError`: then with an `SvcError` that the caller gets.
 */
export interface OnCall {
  (call: Call): Promise<void> | undefined;
  /** It returns promises for plans with `failOnError` only, so that most functions need not be waited for. */
  readonly neverWaits?: boolean;
}

/** Where a target was written. A configured one wins over a decorator on the same function. */
export type PlanOrigin = 'configuration' | 'decorator' | 'publishEvent';

/** The outbox of a target, compiled. */
export interface OutboxPlan {
  readonly aggregateType: string;
  /** Never empty: throws `SvcError` `SVC_OUTBOX_AGGREGATE_ID` where a call has no id, and what a failed expression throws. */
  readonly aggregateId: (call: ExpressionScope) => string;
  /** `transaction`: `result` is what the transaction that the function opened gives back. */
  readonly result: 'transaction' | undefined;
}

/** One publish target, compiled: everything that can be known before the first call. */
export interface CapturePlan {
  /** `src/orders.ts#createOrder`, as reports and logs name it. */
  readonly id: string;
  readonly origin: PlanOrigin;
  readonly eventType: string;
  readonly severity: Severity;
  /** Overrides the default topic. */
  readonly topic?: string | undefined;
  readonly phase: Phase;
  /** The application's call fails with the event's error instead of going on without the event. Default: false; with an outbox always. */
  readonly failOnError: boolean;
  /** `last`: the function tells of its end through a callback in Node's form, its last argument. */
  readonly callback?: 'last' | undefined;
  /** Whether a call makes an event. Throws `SvcError`, and the event is refused. */
  readonly when?: ((call: ExpressionScope) => boolean) | undefined;
  /** The payload of a call. Throws `SvcError` (code `SVC_CAPTURE_EXPRESSION`) and never returns a value that a failed expression made up. */
  readonly payload: (call: ExpressionScope) => unknown;
  /** The event is stored in the transaction of the call. */
  readonly outbox?: OutboxPlan | undefined;
  /** The event waits for the commit of the transaction of the call, and is dropped with it. */
  readonly afterCommit: boolean;
  /** The record key of a call: that which was declared, else the aggregate id; `undefined` where there is neither. */
  readonly key?: ((call: ExpressionScope) => string | undefined) | undefined;
  /** Headers of the record, beside those of svc: texts. */
  readonly headers?: ((call: ExpressionScope) => Readonly<Record<string, string>>) | undefined;
  /** What a reader of the report should know about this plan and its function. */
  readonly notes?: readonly string[];
}
