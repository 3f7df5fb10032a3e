import { types } from 'node:util';

const kinds = [
  'Error',
  'EvalError',
  'RangeError',
  'ReferenceError',
  'SyntaxError',
  'TypeError',
  'URIError',
  'AggregateError',
];

/** What was thrown, by a name that the thrower did not choose: the text of an error may quote anything. */
export function kindOfError(error: unknown): string {
  if (!types.isNativeError(error)) return 'it threw something that is no error';
  const name: unknown = error.name;
  return kinds.find((kind) => kind === name) ?? 'Error';
}
