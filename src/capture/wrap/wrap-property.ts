import { adopt, type Callable, type Held, heldOf, remember } from '../captured-functions.ts';
import type { CaptureSlot } from '../slot.ts';
import { wrapHeld } from './wrap.ts';

/** `taken`: another target, or a declaration that wins, holds the function already; `captureNotes` has both names. */
export type WrapResult =
  | 'wrapped'
  | 'already'
  | 'taken'
  | 'missing'
  | 'not a function'
  | 'not configurable'
  | 'not wrappable';

/** Captures the function in a property, which keeps its flags; of a getter, the function that it returns. Never throws. */
export function wrapProperty(owner: unknown, key: string, slot: CaptureSlot): WrapResult {
  if (owner === null || (typeof owner !== 'object' && typeof owner !== 'function')) return 'missing';
  try {
    const found = findDescriptor(owner, key);
    if (found === undefined) return 'missing';
    return 'value' in found.descriptor
      ? wrapValue(owner, key, found.descriptor, found.isOwn, slot)
      : wrapGetter(owner, key, found.descriptor, found.isOwn, slot);
  } catch {
    return 'not configurable';
  }
}

interface Found {
  readonly descriptor: PropertyDescriptor;
  readonly isOwn: boolean;
}

/** Own or inherited, but not what every object and function has. */
export function findDescriptor(owner: object, key: string): Found | undefined {
  let holder: object | null = owner;
  while (holder !== null) {
    const descriptor = Object.getOwnPropertyDescriptor(holder, key);
    if (descriptor !== undefined) return { descriptor, isOwn: holder === owner };
    holder = Object.getPrototypeOf(holder) as object | null;
    if (holder === Object.prototype || holder === Function.prototype) return undefined;
  }
  return undefined;
}

function wrapValue(
  owner: object,
  key: string,
  descriptor: PropertyDescriptor,
  isOwn: boolean,
  slot: CaptureSlot,
): WrapResult {
  if (typeof descriptor.value !== 'function') return 'not a function';
  const known = heldOf(descriptor.value);
  if (known !== undefined) return adopted(known, slot);
  const isLocked = isOwn ? !descriptor.configurable && !descriptor.writable : !Object.isExtensible(owner);
  if (isLocked) return 'not configurable';
  const value = wrapHeld(descriptor.value as Callable, { slot });
  if (value === descriptor.value) return 'not wrappable';
  return Reflect.defineProperty(owner, key, { ...descriptor, value }) ? 'wrapped' : 'not configurable';
}

function adopted(known: Held, slot: CaptureSlot): WrapResult {
  switch (adopt(known, slot)) {
    case 'already':
      return 'already';
    case 'replaced':
      return 'wrapped';
    default:
      return 'taken';
  }
}

function wrapGetter(
  owner: object,
  key: string,
  descriptor: PropertyDescriptor,
  isOwn: boolean,
  slot: CaptureSlot,
): WrapResult {
  const getter = descriptor.get;
  if (getter === undefined) return 'not a function';
  const known = heldOf(getter);
  if (known !== undefined) return adopted(known, slot);
  if (isOwn ? !descriptor.configurable : !Object.isExtensible(owner)) return 'not configurable';
  const held: Held = { slot };
  const get = wrappingGetter(getter, held);
  return Reflect.defineProperty(owner, key, { ...descriptor, get }) ? 'wrapped' : 'not configurable';
}

/** Returns what `getter` returns; functions wrapped, each once. */
export function wrappingGetter(getter: () => unknown, held: Held): () => unknown {
  const wrappers = new WeakMap<object, Callable>();
  const get = function (this: unknown): unknown {
    const value = Reflect.apply(getter, this, []);
    if (typeof value !== 'function') return value;
    let wrapper = wrappers.get(value);
    if (wrapper === undefined) {
      wrapper = wrapHeld(value as Callable, held);
      wrappers.set(value, wrapper);
    }
    return wrapper;
  };
  remember(get, getter as Callable, held);
  return get;
}
