// declare/: targets that are written in code, and the plan that every target becomes.

import type { TargetFields } from '../../config/schema/target.ts';
import { shared } from '../../ground/lifecycle.ts';
import { adopt, undeclared, type WrapTarget } from '../captured-functions.ts';
import type { CaptureSlot } from '../slot.ts';

/** A target written in code. */
export interface Declaration {
  readonly origin: 'decorator' | 'publishEvent';
  /** `OrderService.create`, or the function's name: the default event type, and how reports name the target. */
  readonly name: string;
  readonly options: PublishEventOptions;
  readonly parameterNames: readonly string[] | undefined;
  /** Why this place cannot be captured; such a declaration gets no slot. */
  readonly problem?: string;
}

/** Makes the slot of a declaration: its plan, and where its calls go. Throws `SvcError` when the plan cannot be made. */
type Declare = (declaration: Declaration) => CaptureSlot;
/** Told of declarations that capture nothing, and why. */
type OnDeclarationFailure = (declaration: Declaration, reason: unknown) => void;

interface Declarations {
  declare: Declare | null;
  onFailure: OnDeclarationFailure | null;
  /** Every one so far: each start declares them anew. */
  readonly known: { readonly declaration: Declaration; readonly held: WrapTarget }[];
}

/** An application that makes such functions without end must not keep them all; later ones miss the next start. */
const mostKnown = 10_000;

const state = shared<Declarations>('declarations', () => ({ declare: null, onFailure: null, known: [] }));

/**
 * A declaration becomes live: now, or when svc starts. Until then the wrappers that share `held` only call their function.
 */
export function declareTarget(declaration: Declaration, held: WrapTarget): void {
  if (state.known.length < mostKnown) state.known.push({ declaration, held });
  if (state.declare !== null) attach(state.declare, declaration, held);
}

/** At start: `declare` gets every declaration there is and every one to come. */
export function connectDeclarations(declare: Declare, onFailure: OnDeclarationFailure = () => {}): void {
  state.declare = declare;
  state.onFailure = onFailure;
  for (const { declaration, held } of state.known) attach(declare, declaration, held);
}

/** At stop: declarations wait for the next start. Whoever made the slots switches them off. */
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

/** What a wrapper holds until its declaration is live. */
export function undeclaredHeld(): WrapTarget {
  return { slot: undeclared };
}

// biome-ignore lint/suspicious/noExplicitAny: a function of every type fits where none was named
export type AnyFunction = (...args: any[]) => any;

/** What `payload`, `key`, `when` and `headers` are made from. */
interface CapturedCall<F extends AnyFunction = AnyFunction> {
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
