import type { SerializedEvent } from '../serialize/serializer.ts';

const publishedAtBytes = 24;
/** Lengths, offsets and time of a record, and lengths of a header, at their longest. */
const recordBytes = 40;
const headerBytes = 6;

/** Size in bytes of the record that an event becomes, on the safe side by a few. */
export function bytesOf({ text, key, headers }: SerializedEvent): number {
  let bytes = recordBytes + publishedAtBytes + Buffer.byteLength(key);
  bytes += Buffer.byteLength(text.beforePublishedAt);
  for (const piece of text.afterPublishedAt) bytes += Buffer.byteLength(piece);
  for (const name in headers) {
    bytes += headerBytes + Buffer.byteLength(name) + Buffer.byteLength(headers[name] as string);
  }
  return bytes;
}
