import { createHash } from 'node:crypto';

/** A name of each event type for files or types, two of which differ by more than case. The first in order keeps the plain one. */
export function namesFor(
  eventTypes: Iterable<string>,
  plainNameOf: (eventType: string) => string | undefined,
): ReadonlyMap<string, string> {
  const taken = new Set<string>();
  const found = new Map<string, string>();
  for (const eventType of [...eventTypes].sort()) {
    const plain = plainNameOf(eventType);
    const name = plain === undefined || taken.has(plain.toLowerCase()) ? hashed(plain, eventType) : plain;
    taken.add(name.toLowerCase());
    found.set(eventType, name);
  }
  return found;
}

const longestPlain = 100;

function hashed(plain: string | undefined, eventType: string): string {
  const shown = (plain ?? eventType.replace(/[^A-Za-z0-9]+/g, '_')).slice(0, longestPlain / 2);
  return `${shown}_${createHash('sha256').update(eventType).digest('hex').slice(0, 8)}`;
}

/** Devices, which Windows takes no file for. */
const reserved = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i;

/** Of files, and of parts of an AsyncAPI document. */
export function fileNameOf(eventType: string): string | undefined {
  const isPlain = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/.test(eventType) && !eventType.endsWith('.');
  return isPlain && eventType.length <= longestPlain && !reserved.test(eventType) ? eventType : undefined;
}

/** `ORDER_CREATED` and `order.created` are `OrderCreated`. */
export function typeNameOf(eventType: string): string | undefined {
  if (eventType.length > longestPlain) return undefined;
  const words = eventType.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  const name = words
    .map(
      (word) =>
        word.charAt(0).toUpperCase() + (/[a-z]/.test(word) ? word.slice(1) : word.slice(1).toLowerCase()),
    )
    .join('');
  if (name === '') return undefined;
  return /^\d/.test(name) ? `E${name}` : name;
}
