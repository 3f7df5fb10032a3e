// What event ids look like: read here, made in `envelope/`.

/** Snowflake ids count from 2024-01-01T00:00:00Z. */
export const snowflakeEpochMs = 1_704_067_200_000;
/** Worker and sequence of a Snowflake id; the counter of a UUID has as many. */
export const bitsBelowMs = 22;

const snowflake = /^\d{1,19}$/;
/** Of version 7 as `envelope/uuid-v7.ts` writes them: 48 bits of milliseconds, a counter of 12 and of 10 bits. */
const uuid = /^([0-9a-f]{8})-([0-9a-f]{4})-7([0-9a-f]{3})-([89ab][0-9a-f]{2})[0-9a-f]-[0-9a-f]{12}$/;

/** A decimal number, or a UUID of version 7. */
export function isEventId(text: string): boolean {
  return snowflake.test(text) || uuid.test(text);
}

/**
 * Where an event id stands in time, in 64 bits: of those of one process, of two kinds even, each has a greater one than
 * the id before it. What is no event id of svc comes first.
 */
export function orderOf(eventId: string): bigint {
  if (snowflake.test(eventId)) return BigInt(eventId);
  const [, high, low, upper, lower] = uuid.exec(eventId) ?? [];
  if (high === undefined) return 0n;
  const elapsedMs = Math.max(0, Number.parseInt(`${high}${low}`, 16) - snowflakeEpochMs);
  const counter = (Number.parseInt(`${upper}`, 16) << 10) | (Number.parseInt(`${lower}`, 16) & 0x3ff);
  return BigInt.asUintN(64, (BigInt(elapsedMs) << BigInt(bitsBelowMs)) | BigInt(counter));
}
