/**
 * What users of a module get instead of exports that are locked: getters as esbuild, swc and tsc emit them, and the
 * namespace of an ES module that `require` returned. Everything but `key` is read live from the original.
 */
export function replacing(exports: object, key: string, wrapper: unknown): object {
  const copy = Object.create(Object.getPrototypeOf(exports) as object | null) as object;
  for (const name of Reflect.ownKeys(exports)) {
    const descriptor = Object.getOwnPropertyDescriptor(exports, name);
    Object.defineProperty(copy, name, {
      configurable: true,
      enumerable: descriptor?.enumerable === true,
      get: () => (name === key ? wrapper : Reflect.get(exports, name)),
      set: (value: unknown) => {
        Reflect.set(exports, name, value);
      },
    });
  }
  return copy;
}
