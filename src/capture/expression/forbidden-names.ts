/** Names that lead from a value to its prototype or its class. They are refused in the text and as computed names. */
const forbiddenNames: ReadonlySet<string> = new Set([
  '__proto__',
  'constructor',
  'prototype',
  '__defineGetter__',
  '__defineSetter__',
  '__lookupGetter__',
  '__lookupSetter__',
]);

export function isForbiddenName(name: string): boolean {
  return forbiddenNames.has(name);
}
