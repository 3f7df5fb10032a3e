import { AsyncLocalStorage } from 'node:async_hooks';
import { types } from 'node:util';
import type { Context } from '@opentelemetry/api';
import { otelApi } from '../../observe/otel-api.ts';
import type { Place, Scope } from '../../transaction/scope.ts';
import type { Call } from '../call.ts';
import { type Callable, chainOf, type Held } from '../captured-functions.ts';
import type { CapturePlan } from '../plan.ts';
import type { CaptureSlot } from '../slot.ts';

/** What a wrapper stands for. */
export interface Captured {
  readonly fn: Callable;
  readonly held: Held;
  /** Nobody else has a promise that the function returns: it is an `async` one. */
  readonly isAsync: boolean;
}

/** A call whose function runs, or whose result is not there yet. */
export interface RunningCall {
  readonly slot: CaptureSlot;
  /** That of the slot when the call began. */
  readonly plan: CapturePlan;
  readonly self: unknown;
  readonly args: readonly unknown[];
  /** As `Captured` says. */
  readonly isAsync: boolean;
  readonly scope: Scope | undefined;
  /** The scope that the call was made in. */
  readonly outer: Place;
  /** What the function returned. */
  result: unknown;
}

/** Whether `fn` is an `async` function, also where it is wrapped again. */
export function isAsyncFunction(fn: Callable): boolean {
  return chainOf(fn).some((link) => types.isAsyncFunction(link) && !types.isGeneratorFunction(link));
}

/** What is told of a call at its end. */
export function callOf(
  { plan, self, args, scope }: RunningCall,
  result: unknown,
  error: unknown,
  canWait: boolean,
): Call {
  return { plan, self, args, result, error, canWait, scope };
}

/** Whether somebody may have to wait for its event, or gets the event's error. */
export function isAwaited({ slot, plan }: Pick<RunningCall, 'slot' | 'plan'>): boolean {
  return plan.failOnError || slot.onCall?.neverWaits !== true;
}

export interface CallContext {
  /** `undefined` where nobody registered anything with OpenTelemetry. */
  readonly context: Context | undefined;
  /** Runs a function in the asynchronous context (logging, request, trace) that was there when the call was made. */
  readonly run: <A extends unknown[], R>(fn: (...args: A) => R, ...args: A) => R;
}

/** For results that end somewhere else than where the call was made. Costs about a microsecond: not for promises, which keep it. */
export function inCallContext(): CallContext {
  return { context: otelApi()?.context.active(), run: AsyncLocalStorage.snapshot() };
}
