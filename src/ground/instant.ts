const instant = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/;

/**
 * Milliseconds since the epoch of an ISO 8601 time: `2026-03-04T10:00:00Z`, or `2026-03-04` (UTC); `undefined`: it is none. A
 * time without a zone could be anybody's.
 */
export function parseInstant(text: string): number | undefined {
  // Date.parse alone takes "90" for a year.
  const time = instant.test(text) && isDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

const ago = /^(\d{1,9})(s|m|h|d)$/;
const unitsMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The same, or how long ago: `90m`, `2d`. */
export function parsePast(text: string, nowMs: number): number | undefined {
  const [, count, unit] = ago.exec(text) ?? [];
  if (count === undefined || unit === undefined) return parseInstant(text);
  const time = nowMs - Number(count) * (unitsMs[unit] as number);
  return time >= 0 ? time : undefined;
}

/** Date.parse alone takes the 31st of February for the 3rd of March. */
function isDay(day: string): boolean {
  const time = Date.parse(day);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(day);
}

/** `2026-03-01T12:00:00Z`, for a line of text. */
export const isoSeconds = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
