import type { Severity } from '../../ground/event-fields.ts';
import type { PiiRules } from '../../ground/pii-rule.ts';
import type { Phase } from '../plan.ts';

// biome-ignore lint/suspicious/noExplicitAny: a function of every type fits where none was named
export type AnyFunction = (...args: any[]) => any;

/** What `payload`, `key`, `when` and `headers` are made from. */
export interface CapturedCall<F extends AnyFunction = AnyFunction> {
  readonly args: Readonly<Parameters<F>>;
  /** What the function returned, resolved to or, with `callback: 'last'`, called back with; `null` in phase BEFORE, when it threw, and for a generator without return value. */
  readonly result: Awaited<ReturnType<F>>;
  // biome-ignore lint/suspicious/noExplicitAny: the type of `this` of a method is not part of the method's type
  readonly self: any;
  /** What the function threw or rejected with (phase AFTER); else `undefined`. */
  readonly error?: unknown;
}

/** One publish target, written in code: the fields of the configuration's `svc.targets`. */
export interface PublishEventOptions<F extends AnyFunction = AnyFunction> {
  /** Default: `ClassName.methodName`, or the function's name. */
  readonly eventType?: string;
  /** Default: INFO. */
  readonly severity?: Severity;
  /** Default: `svc.broker.topic`. */
  readonly topic?: string;
  /** A function of the call, or an expression (`#result.orderId`). Default: the return value. */
  readonly payload?: string | ((call: CapturedCall<F>) => unknown);
  /** -1, the default: the return value; 0 and up: that argument. `payload` wins. */
  readonly payloadIndex?: number;
  /** Which calls make an event: a function of the call, or an expression (`#result != null`). Default: all. */
  readonly when?: string | ((call: CapturedCall<F>) => unknown);
  /** `last`: the last argument is a callback in Node's form, the error first; what follows the error is the result. */
  readonly callback?: 'last';
  /** The record key: a function of the call, or an expression. Default: the event id. */
  readonly key?: string | ((call: CapturedCall<F>) => unknown);
  /** Headers of the record by their names, each a function of the call or an expression; null and undefined are left out. */
  readonly headers?: Readonly<Record<string, string | ((call: CapturedCall<F>) => unknown)>>;
  /** Rules for personal data in payloads of this event type, in the forms of `svc.pii.fields`; `{ type: 'EMAIL' }` for the whole. */
  readonly pii?: PiiRules;
  /** Default: AFTER_RETURNING. */
  readonly phase?: Phase;
  /** The call fails with the event's error instead of going on without the event. Default: false. */
  readonly failOnError?: boolean;
}
