import { types } from 'node:util';
import { shared } from '../ground/lifecycle.ts';
import { addNote } from './report.ts';
import { type CaptureSlot, createSlot } from './slot.ts';

export type Callable = ((...args: never[]) => unknown) | (abstract new (...args: never[]) => unknown);

/** The record of a wrapper. Its slot can change (a configured target takes over) without another wrapper. */
export interface WrapTarget {
  slot: CaptureSlot;
}

interface Registry {
  readonly captured: WeakMap<object, WrapTarget>;
  /** Wrapper -> what it calls, for every wrapper of svc: captured functions, factories, getters. */
  readonly originals: WeakMap<object, Callable>;
}

// Not a symbol property: a subclass would inherit it from the class that it extends.
const registry = shared<Registry>('captured-functions', () => ({
  captured: new WeakMap(),
  originals: new WeakMap(),
}));

/** How many wrappers of other tools to look through: OpenTelemetry and shimmer leave `__original`. */
const longestChain = 8;

export function remember(wrapper: Callable, original: Callable, held?: WrapTarget): void {
  registry.originals.set(wrapper, original);
  if (held !== undefined) registry.captured.set(wrapper, held);
}

/** What a wrapper of svc calls; `undefined` for any other value. */
export function originalOf(wrapper: unknown): Callable | undefined {
  return typeof wrapper === 'function' ? registry.originals.get(wrapper) : undefined;
}

/** The wrapper's record, also behind factories and wrappers of other tools. */
export function heldOf(fn: unknown): WrapTarget | undefined {
  for (const link of chainOf(fn)) {
    const held = registry.captured.get(link);
    if (held !== undefined) return held;
  }
  return undefined;
}

/** `fn`, what it wraps, what that wraps, and so on as far as known. */
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

/** The slot of a decorated function without a plan, because svc does not run yet. */
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
 * `already`: it serves this target. `replaced`: the configured target took over from the one in the code. `overruled`:
 * the configured target stays. `taken`: another target of the same rank was first.
 */
type Adoption = 'already' | 'replaced' | 'overruled' | 'taken';

/** Decides which of two targets a captured function serves: a call makes one event. */
export function adopt(held: WrapTarget, slot: CaptureSlot): Adoption {
  const current = held.slot;
  if (current === slot || slot === undeclared) return 'already';
  if (current === undeclared) {
    held.slot = slot;
    return 'replaced';
  }
  if (current.plan.id === slot.plan.id && current.plan.origin === slot.plan.origin) {
    // The same target after a later start in the same process: the earlier slot is dead.
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

export function isAsyncFunction(fn: Callable): boolean {
  return chainOf(fn).some((link) => types.isAsyncFunction(link) && !types.isGeneratorFunction(link));
}

export const functionText: () => string = Function.prototype.toString;

export function textOf(fn: Callable): string {
  try {
    return functionText.call(fn);
  } catch {
    return '';
  }
}
