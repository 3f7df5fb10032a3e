import { shared } from '../ground/lifecycle.ts';
import { addNote } from './report.ts';
import { type CaptureSlot, createSlot } from './slot.ts';

/** Anything that can be called or constructed. */
export type Callable = ((...args: never[]) => unknown) | (abstract new (...args: never[]) => unknown);

/** What a wrapper holds: which slot it serves can change (a configured target takes over) without wrapping again. */
export interface WrapTarget {
  slot: CaptureSlot;
}

interface Registry {
  readonly captured: WeakMap<object, WrapTarget>;
  /** Wrapper -> what it calls, for every wrapper of ours: captured functions, factories, getters. */
  readonly originals: WeakMap<object, Callable>;
}

// A WeakMap and no symbol property: a subclass would inherit the property of the class it extends.
const registry = shared<Registry>('captured-functions', () => ({
  captured: new WeakMap(),
  originals: new WeakMap(),
}));

/** Other tools' wrappers to look through: `__original` is what OpenTelemetry and shimmer leave. */
const longestChain = 8;

export function remember(wrapper: Callable, original: Callable, held?: WrapTarget): void {
  registry.originals.set(wrapper, original);
  if (held !== undefined) registry.captured.set(wrapper, held);
}

/** What a wrapper of ours calls; `undefined` for whatever is none. */
export function originalOf(wrapper: unknown): Callable | undefined {
  return typeof wrapper === 'function' ? registry.originals.get(wrapper) : undefined;
}

/** The wrapper's record, also where factories or other tools wrapped the wrapper again. */
export function heldOf(fn: unknown): WrapTarget | undefined {
  for (const link of chainOf(fn)) {
    const held = registry.captured.get(link);
    if (held !== undefined) return held;
  }
  return undefined;
}

/** `fn`, what it wraps, what that wraps, …: as far as it is known. */
export function chainOf(fn: unknown): Callable[] {
  const chain: Callable[] = [];
  let link = fn;
  while (typeof link === 'function' && chain.length < longestChain) {
    chain.push(link as Callable);
    link = registry.originals.get(link) ?? ownOriginal(link);
  }
  return chain;
}

function ownOriginal(fn: object): unknown {
  try {
    return Object.getOwnPropertyDescriptor(fn, '__original')?.value;
  } catch {
    return undefined;
  }
}

/** The slot that a captured function serves now; `undefined` for a function that is not captured. */
export function slotOf(fn: unknown): CaptureSlot | undefined {
  return heldOf(fn)?.slot;
}

/** The slot of a decorated function whose plan is not made yet, because svc is not (or not yet) running. */
export const undeclared: CaptureSlot = shared<CaptureSlot>('undeclared-slot', () =>
  createSlot(
    {
      id: 'not declared',
      origin: 'decorator',
      eventType: '',
      severity: 'INFO',
      phase: 'AFTER_RETURNING',
      failOnError: false,
      afterCommit: false,
      payload: () => null,
    },
    null,
  ),
);

/**
 * `already`: it serves this target; `replaced`: the configured target took over from the one in the code; `overruled`: the
 * configured target stays; `taken`: another target of the same rank was first.
 */
type Adoption = 'already' | 'replaced' | 'overruled' | 'taken';

/** A second target arrives at a function that is captured. One event per call: exactly one of the two goes on. */
export function adopt(held: WrapTarget, slot: CaptureSlot): Adoption {
  const current = held.slot;
  if (current === slot || slot === undeclared) return 'already';
  if (current === undeclared) {
    held.slot = slot;
    return 'replaced';
  }
  if (current.plan.id === slot.plan.id && current.plan.origin === slot.plan.origin) {
    // The same target of a later start in the same process: the slot of the earlier one is dead.
    held.slot = slot;
    return 'already';
  }
  const isConfigured = slot.plan.origin === 'configuration';
  if (isConfigured && current.plan.origin !== 'configuration') {
    held.slot = slot;
    addNote({
      winner: slot.plan.id,
      loser: current.plan.id,
      reason: 'a configured target has priority over one in the code',
    });
    return 'replaced';
  }
  const isOverruled = !isConfigured && current.plan.origin === 'configuration';
  const reason = isOverruled
    ? 'a configured target has priority over one in the code'
    : 'the first target of a function has priority';
  addNote({ winner: current.plan.id, loser: slot.plan.id, reason });
  return isOverruled ? 'overruled' : 'taken';
}

export const functionText: () => string = Function.prototype.toString;

/** The source text of a function; empty for what has none. */
export function textOf(fn: Callable): string {
  try {
    return functionText.call(fn);
  } catch {
    return '';
  }
}
