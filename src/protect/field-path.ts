/**
 * Where a value stands in a payload, as ciphertexts of format v1 are bound to it: `customer.email`, `items[*].phone`,
 * `rates["a.b"]`; `value` for a payload that is no object. The elements of an array share one path, so that a reader may
 * reorder or drop some. Two places never have the same path otherwise.
 */
export function memberPath(parent: string, key: string): string {
  if (!plainKey.test(key)) return `${parent}[${JSON.stringify(key)}]`;
  return parent === '' ? key : `${parent}.${key}`;
}

export function elementPath(parent: string): string {
  return `${parent}[*]`;
}

const plainKey = /^[\w$-]+$/;
