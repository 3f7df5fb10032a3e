import type { Context } from '@opentelemetry/api';
import type { Phase } from '../config/schema/target.ts';
import type { ErrorCode } from '../ground/errors.ts';
import type { Severity } from '../ground/event-fields.ts';
import type { Scope } from '../transaction/transaction.ts';

export interface Call {
  readonly plan: CapturePlan;
  readonly self: unknown;
  readonly args: readonly unknown[];
  /** What the function returned or resolved to; `null` in phase BEFORE and after an error. Throws if it is not known yet. */
  readonly result: unknown;
  readonly error: unknown;
  /** The OpenTelemetry context of the call, for a result that ends outside it. Default: the active context. */
  readonly context?: Context | undefined;
  /** Why the call cannot become an event: its `when` failed. It counts as refused. */
  readonly refusal?: unknown;
  /** The scope of a function that takes part in transactions. Default: the current one. */
  readonly scope?: Scope | undefined;
  /** Set before a COMMIT with an unknown result. Calling it postpones the event, uncounted, to the end of the function. */
  readonly postpone?: (() => void) | undefined;
  /** The captured calls around this one and inside it. Only the first calls of a target have it. */
  readonly nest?: Nest | undefined;
  /** Whether the caller can wait for the event: for a promise, thenable, async iterator or later callback. */
  readonly canWait: boolean;
}

/** A watched call, and the watched call around it. Holds neither arguments nor results. */
export interface Nest {
  readonly plan: CapturePlan;
  readonly outer: Nest | undefined;
  /** Its event exists: later calls are not inside it. */
  isOver: boolean;
  readonly inner: {
    readonly plan: CapturePlan;
    /** `undefined`: the key is the event id. */
    readonly key: string | undefined;
  }[];
}

/**
 * Turns a call into an event: envelope, protection, publication. Runs on the caller's path.
 *
 * Returns a promise only if the caller must wait for the event (`svc.broker.async-mode: false` and `canWait`). Neither
 * throws nor rejects, except with `failOnError`: then with an `SvcError` that the caller gets.
 */
export interface OnCall {
  (call: Call): Promise<void> | undefined;
  /** Returns promises only for plans with `failOnError`: most functions need no wait. */
  readonly neverWaits?: boolean;
}

/** The parts of a call that an expression can read. */
export interface ExpressionScope {
  readonly args: readonly unknown[];
  /** What the function returned or resolved to. Throws if it is not known yet. */
  readonly result: unknown;
  /** The `this` of the call. */
  readonly self: unknown;
  readonly error?: unknown;
  /** For a value that is published in clear text: why a field must not be read. */
  readonly refuses?: ((target: unknown, field: string) => ErrorCode | undefined) | undefined;
}

/** One publish target, compiled: everything that is known before the first call. */
export interface CapturePlan {
  /** `src/orders.ts#createOrder`, as reports and logs name it. */
  readonly id: string;
  /** Where it was declared. A configured target has priority over a decorator on the same function. */
  readonly origin: 'configuration' | 'decorator' | 'publishEvent';
  readonly eventType: string;
  readonly severity: Severity;
  readonly topic?: string | undefined;
  readonly phase: Phase;
  /** The application's call fails with the event's error. Default: false; with an outbox always true. */
  readonly failOnError: boolean;
  /** `last`: the function ends through a Node callback, its last argument. */
  readonly callback?: 'last' | undefined;
  /** Whether a call makes an event. Throws `SvcError`: the event is then refused. */
  readonly when?: ((call: ExpressionScope) => boolean) | undefined;
  /** The payload of a call. Throws `SvcError` `SVC_CAPTURE_EXPRESSION` for a failed expression. */
  readonly payload: (call: ExpressionScope) => unknown;
  readonly outbox?:
    | {
        readonly aggregateType: string;
        /** Never empty: throws `SvcError` `SVC_OUTBOX_AGGREGATE_ID`, or the error of a failed expression. */
        readonly aggregateId: (call: ExpressionScope) => string;
        /** `transaction`: `result` is what the transaction of the function returns. */
        readonly result: 'transaction' | undefined;
      }
    | undefined;
  /** The event waits for the commit of the call's transaction, and is dropped on rollback. */
  readonly afterCommit: boolean;
  /** The record key of a call: the declared key, else the aggregate id, else `undefined`. */
  readonly key?: ((call: ExpressionScope) => string | undefined) | undefined;
  readonly headers?: ((call: ExpressionScope) => Readonly<Record<string, string>>) | undefined;
  /** Remarks about this plan and its function, for the report. */
  readonly notes?: readonly string[];
}
