import { pureMethodNames } from './pure-methods.ts';

const readingName = /^(?:to|get|is|has|as)[A-Z]\w*$/u;

/** Whether a method of the application's own object may be called under this name. */
export function isReadingName(name: string): boolean {
  return readingName.test(name);
}

/** Why no value has a method of this name that may be called; `undefined` if one can have it. */
export function methodRefusal(name: string): string | undefined {
  if (isReadingName(name) || pureMethodNames.has(name)) return undefined;
  return `the method "${name}" is refused: an expression may call toX, getX, isX, hasX and asX methods of objects, and those of built-in values that only read.`;
}
