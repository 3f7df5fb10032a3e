/** A value of which only its shape is known: drivers and ORMs are recognised by what they can do, never loaded. */
export type Shape = Readonly<Record<string, unknown>>;
// biome-ignore lint/suspicious/noExplicitAny: a method of somebody else's object
export type Method = (...args: any[]) => any;

export function isShape(value: unknown): value is Shape {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

export function can<Name extends string>(value: unknown, ...names: Name[]): value is Record<Name, Method> {
  return isShape(value) && names.every((name) => typeof value[name] === 'function');
}

export function has<Name extends string>(value: unknown, ...names: Name[]): value is Record<Name, Shape> {
  return isShape(value) && names.every((name) => isShape(value[name]));
}

/** Node's own form of an answer, as a promise. */
export function answered<R>(call: (callback: (error: unknown, result: R) => void) => void): Promise<R> {
  return new Promise((resolve, reject) => call((error, result) => (error ? reject(error) : resolve(result))));
}
