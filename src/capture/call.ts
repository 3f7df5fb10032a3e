import type { Context } from '@opentelemetry/api';
import type { Scope } from '../transaction/scope.ts';
import type { CapturePlan } from './plan.ts';

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
  /**
   * True when the caller can wait for the event (the function returned a promise, a thenable or an async iterator, or calls back later).
   * False for a synchronous function: it is never blocked.
   */
  readonly canWait: boolean;
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
