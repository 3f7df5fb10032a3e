/** A property as `owner` has it, own or inherited. */
export interface PropertyPlace {
  readonly owner: object;
  readonly key: string;
  readonly descriptor: PropertyDescriptor;
  readonly isOwn: boolean;
}

/** Not what every object and function has. `undefined` as well where `owner` can have no properties. */
export function findPlace(owner: unknown, key: string): PropertyPlace | undefined {
  if (!canHaveProperties(owner)) return undefined;
  let holder: object | null = owner;
  while (holder !== null) {
    const descriptor = Object.getOwnPropertyDescriptor(holder, key);
    if (descriptor !== undefined) return { owner, key, descriptor, isOwn: holder === owner };
    holder = Object.getPrototypeOf(holder) as object | null;
    if (holder === Object.prototype || holder === Function.prototype) return undefined;
  }
  return undefined;
}

/** The property keeps its flags; of an inherited one, `owner` gets one of its own. `false` where it is locked. */
export function putInPlace(
  { owner, key, descriptor }: PropertyPlace,
  wrapper: Pick<PropertyDescriptor, 'value'> | Pick<PropertyDescriptor, 'get'>,
): boolean {
  return Reflect.defineProperty(owner, key, { ...descriptor, ...wrapper });
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
