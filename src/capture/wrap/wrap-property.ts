import { adopt, type Callable, type Held, heldOf, remember } from '../captured-functions.ts';
import type { CaptureSlot } from '../slot.ts';
import { findPlace, type PropertyPlace, putInPlace } from './property-place.ts';
import { wrapHeld } from './wrap.ts';

/** `taken`: another target, or a declaration that wins, holds the function already; `captureNotes` has both names. */
export type WrapResult =
  | 'wrapped'
  | 'already'
  | 'taken'
  | 'missing'
  /** The path leads through a getter, which nobody but the application runs. */
  | 'behind a getter'
  | 'not a function'
  | 'not configurable'
  | 'not wrappable';

/** Captures the function in a property, which keeps its flags; of a getter, the function that it returns. Never throws. */
export function wrapProperty(owner: unknown, key: string, slot: CaptureSlot): WrapResult {
  try {
    const place = findPlace(owner, key);
    if (place === undefined) return 'missing';
    return 'value' in place.descriptor ? wrapValue(place, slot) : wrapGetter(place, slot);
  } catch {
    return 'not configurable';
  }
}

function wrapValue(place: PropertyPlace, slot: CaptureSlot): WrapResult {
  const { owner, descriptor, isOwn } = place;
  if (typeof descriptor.value !== 'function') return 'not a function';
  const known = heldOf(descriptor.value);
  if (known !== undefined) return adopted(known, slot);
  const isLocked = isOwn ? !descriptor.configurable && !descriptor.writable : !Object.isExtensible(owner);
  if (isLocked) return 'not configurable';
  const value = wrapHeld(descriptor.value as Callable, { slot });
  if (value === descriptor.value) return 'not wrappable';
  return putInPlace(place, { value }) ? 'wrapped' : 'not configurable';
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

function wrapGetter(place: PropertyPlace, slot: CaptureSlot): WrapResult {
  const { owner, descriptor, isOwn } = place;
  const getter = descriptor.get;
  if (getter === undefined) return 'not a function';
  const known = heldOf(getter);
  if (known !== undefined) return adopted(known, slot);
  if (isOwn ? !descriptor.configurable : !Object.isExtensible(owner)) return 'not configurable';
  const held: Held = { slot };
  const get = wrappingGetter(getter, held);
  return putInPlace(place, { get }) ? 'wrapped' : 'not configurable';
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
