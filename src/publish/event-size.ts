import type { EventText, SerializedEvent } from '../serialize/serializer.ts';

const publishedAtBytes = 24;
/** Lengths, offsets and time of a record, and lengths of a header, at their longest. */
const recordBytes = 40;
const headerBytes = 6;

/** Size in bytes of the record that an event becomes, on the safe side by a few. */
export function bytesOf({ text, key, headers }: SerializedEvent): number {
  let bytes = recordBytes + publishedAtBytes + Buffer.byteLength(key) + bytesOfText(text);
  for (const name of Object.keys(headers)) {
    bytes += headerBytes + Buffer.byteLength(name) + Buffer.byteLength(headers[name] as string);
  }
  return bytes;
}

/** Without the value of `publishedAt`. */
export function bytesOfText({ beforePublishedAt, afterPublishedAt }: EventText): number {
  let bytes = Buffer.byteLength(beforePublishedAt);
  for (const piece of afterPublishedAt) bytes += Buffer.byteLength(piece);
  return bytes;
}
