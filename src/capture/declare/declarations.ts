// declare/: targets in code, and the plan that every target becomes.

import type { TargetFields } from '../../config/schema/target.ts';
import { shared } from '../../ground/lifecycle.ts';
import { adopt, type WrapTarget } from '../captured-functions.ts';
import type { CaptureSlot } from '../slot.ts';

export interface Declaration {
  readonly origin: 'decorator' | 'publishEvent';
  /** `OrderService.create`, or the function's name: the default event type, and the name in reports. */
  readonly name: string;
  readonly options: PublishEventOptions;
  readonly parameterNames: readonly string[] | undefined;
  /** Why the function cannot be captured; such a declaration gets no slot. */
  readonly problem?: string;
}

type Declare = (declaration: Declaration) => CaptureSlot;
/** Called for declarations that cannot be captured, with the reason. */
type OnDeclarationFailure = (declaration: Declaration, reason: unknown) => void;

interface Declarations {
  declare: Declare | null;
  onFailure: OnDeclarationFailure | null;
  /** All so far: each start declares them again. */
  readonly known: { readonly declaration: Declaration; readonly held: WrapTarget }[];
}

/** Bounds the memory of an application that keeps creating such functions; later ones miss the next start. */
const maxKnown = 10_000;

const state = shared<Declarations>('declarations', () => ({ declare: null, onFailure: null, known: [] }));

/** Activates a declaration, now or when svc starts. Until then the wrappers that share `held` only call their function. */
export function declareTarget(declaration: Declaration, held: WrapTarget): void {
  if (state.known.length < maxKnown) state.known.push({ declaration, held });
  if (state.declare !== null) attach(state.declare, declaration, held);
}

/** At start: passes all declarations, past and future, to `declare`. */
export function connectDeclarations(declare: Declare, onFailure: OnDeclarationFailure = () => {}): void {
  state.declare = declare;
  state.onFailure = onFailure;
  for (const { declaration, held } of state.known) attach(declare, declaration, held);
}

/** At stop: declarations wait for the next start. The caller switches their slots off. */
export function disconnectDeclarations(): void {
  state.declare = null;
  state.onFailure = null;
}

function attach(declare: Declare, declaration: Declaration, held: WrapTarget): void {
  try {
    if (declaration.problem === undefined) adopt(held, declare(declaration));
    else state.onFailure?.(declaration, declaration.problem);
  } catch (error) {
    state.onFailure?.(declaration, error);
  }
}

// biome-ignore lint/suspicious/noExplicitAny: a function of every type fits where none was named
export type AnyFunction = (...args: any[]) => any;

/** The argument of the functions `payload`, `key`, `when` and `headers`. */
interface CapturedCall<F extends AnyFunction = AnyFunction> {
  readonly args: Readonly<Parameters<F>>;
  /**
   * What the function returned or resolved to; with `callback: 'last'`, the value passed to the callback. `null` in
   * phase BEFORE, after an error, and for a generator without a return value.
   */
  readonly result: Awaited<ReturnType<F>>;
  // biome-ignore lint/suspicious/noExplicitAny: the type of `this` of a method is not part of the method's type
  readonly self: any;
  readonly error?: unknown;
}

/** One publish target in code: the fields of `svc.targets` in the configuration. */
export interface PublishEventOptions<F extends AnyFunction = AnyFunction>
  extends TargetFields<string | ((call: CapturedCall<F>) => unknown)> {}
