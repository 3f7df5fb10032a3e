/** Puts a hidden own property on the application's object; false where it does not take one (frozen, a strict proxy). */
export function setOwn(owner: object, key: string, value: unknown): boolean {
  try {
    const descriptor = { value, configurable: true, enumerable: false, writable: true };
    return Reflect.defineProperty(owner, key, descriptor) && Reflect.get(owner, key) === value;
  } catch {
    return false;
  }
}
