import type { TargetFields } from '../../config/schema/target-fields.ts';

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
export interface PublishEventOptions<F extends AnyFunction = AnyFunction>
  extends TargetFields<string | ((call: CapturedCall<F>) => unknown)> {}
