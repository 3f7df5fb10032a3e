// What event ids look like: read here, made in `envelope/`.

/** Snowflake ids count from 2024-01-01T00:00:00Z. */
export const snowflakeEpochMs = 1_704_067_200_000;
/** A UUID of any version, as text. */
export const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** Worker and sequence of a Snowflake id; the counter of a UUID has as many. */
export const bitsBelowMs = 22;

/** A decimal number, or a UUID of version 7. */
export function isEventId(text: string): boolean {
  return isSnowflake(text) || isUuid(text);
}

// Neither is told by a regular expression, which V8 compiles at its first use: where the stack is used up then, it ends the process.

function isSnowflake(text: string): boolean {
  return text.length > 0 && text.length <= 19 && isAllOf(text, isDigit);
}

/** Of version 7 as `envelope/uuid-v7.ts` writes them: 48 bits of milliseconds, a counter of 12 and of 10 bits. */
function isUuid(text: string): boolean {
  if (text.length !== 36 || text[14] !== '7' || !'89ab'.includes(text.charAt(19))) return false;
  return isAllOf(text, (code, at) =>
    dashes.includes(at) ? code === dash : isDigit(code) || isLetterOfHex(code),
  );
}

const dashes = [8, 13, 18, 23];
const dash = 0x2d;
const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;
const isLetterOfHex = (code: number): boolean => code >= 0x61 && code <= 0x66;

function isAllOf(text: string, isSo: (code: number, at: number) => boolean): boolean {
  for (let at = 0; at < text.length; at++) if (!isSo(text.charCodeAt(at), at)) return false;
  return true;
}

/**
 * Where an event id stands in time, in 64 bits: of those of one process, of two kinds even, each has a greater one than
 * the id before it. What is no event id of svc comes first.
 */
export function orderOf(eventId: string): bigint {
  if (isSnowflake(eventId)) return BigInt(eventId);
  if (!isUuid(eventId)) return 0n;
  const elapsedMs = Math.max(0, hex(eventId, 0, 8) * 2 ** 16 + hex(eventId, 9, 13) - snowflakeEpochMs);
  const counter = (hex(eventId, 15, 18) << 10) | (hex(eventId, 19, 22) & 0x3ff);
  return BigInt.asUintN(64, (BigInt(elapsedMs) << BigInt(bitsBelowMs)) | BigInt(counter));
}

const hex = (text: string, from: number, to: number): number => Number.parseInt(text.slice(from, to), 16);
