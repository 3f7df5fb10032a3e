/**
 * Where a value stands in a payload, as ciphertexts of format v1 are bound to it: `customer.email`, `items[*].phone`, `value`
 * for a payload that is no object. Elements of an array share one path, so that a reader may reorder or drop some.
 */
export function memberPath(parent: string, key: string): string {
  return parent === '' ? key : `${parent}.${key}`;
}

export function elementPath(parent: string): string {
  return `${parent}[*]`;
}
