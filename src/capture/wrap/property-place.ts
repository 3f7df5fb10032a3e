import { shared } from '../../ground/lifecycle.ts';
import { inEachForm } from '../../ground/nearest-names.ts';

/** A property as `owner` has it, own or inherited. */
export interface PropertyPlace {
  readonly owner: object;
  readonly key: string;
  readonly descriptor: PropertyDescriptor;
  readonly isOwn: boolean;
}

/**
 * Not what every object and function has. `undefined` as well where `owner` can have no properties. Where nothing has this very key, one that is
 * the same name in another normal form of Unicode.
 */
export function findPlace(owner: unknown, key: string): PropertyPlace | undefined {
  if (!canHaveProperties(owner)) return undefined;
  const place = placeOf(owner, key);
  if (place !== undefined) return place;
  for (const form of inEachForm(key).slice(1)) {
    const other = placeOf(owner, form);
    if (other !== undefined) return other;
  }
  return undefined;
}

function placeOf(owner: object, key: string): PropertyPlace | undefined {
  let holder: object | null = owner;
  while (holder !== null) {
    const descriptor = Object.getOwnPropertyDescriptor(holder, key);
    if (descriptor !== undefined) return { owner, key, descriptor, isOwn: holder === owner };
    holder = Object.getPrototypeOf(holder) as object | null;
    if (holder === Object.prototype || holder === Function.prototype) return undefined;
  }
  return undefined;
}

type Wrapper = Pick<PropertyDescriptor, 'value'> | Pick<PropertyDescriptor, 'get'>;

/** The property keeps its flags; of an inherited one, `owner` gets a hidden one of its own. `false` where it is locked. */
export function putInPlace({ owner, key, descriptor, isOwn }: PropertyPlace, wrapper: Wrapper): boolean {
  return Reflect.defineProperty(owner, key, {
    ...descriptor,
    ...wrapper,
    ...(!isOwn && { enumerable: false }),
  });
}

/** Objects that svc has put between an object and its prototype. */
const layers = shared('prototype-layers', () => new WeakSet<object>());

/**
 * The same for an object that is made once: of an inherited property, its prototype gets a layer in front that has it, so that
 * the object has no key more, and other objects with this prototype are as they were.
 */
export function putAhead(place: PropertyPlace, wrapper: Wrapper): boolean {
  const { owner, key, descriptor, isOwn } = place;
  if (isOwn) return putInPlace(place, wrapper);
  const prototype = Object.getPrototypeOf(owner) as object | null;
  const isThere = prototype !== null && layers.has(prototype);
  const layer = isThere ? prototype : (Object.create(prototype) as object);
  if (!Reflect.defineProperty(layer, key, { ...descriptor, ...wrapper, configurable: true })) return false;
  if (isThere) return true;
  layers.add(layer);
  return (
    Reflect.setPrototypeOf(owner, layer) && Reflect.get(owner, key) === (wrapper as { value?: unknown }).value
  );
}

export function canHaveProperties(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

/** Puts a hidden own property on the application's object; false where it does not take one (frozen, a strict proxy). */
export function setOwn(owner: object, key: string, value: unknown): boolean {
  try {
    const descriptor = { value, configurable: true, enumerable: false, writable: true };
    return Reflect.defineProperty(owner, key, descriptor) && Reflect.get(owner, key) === value;
  } catch {
    return false;
  }
}
