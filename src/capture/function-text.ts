import type { Callable } from './captured-functions.ts';

export const functionText: () => string = Function.prototype.toString;

/** The source text of a function; empty for what has none. */
export function textOf(fn: Callable): string {
  try {
    return functionText.call(fn);
  } catch {
    return '';
  }
}
