/** W3C Trace Context: `00-<trace id>-<span id>-<flags>`; later versions may go on after another dash. */
const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
export const zeroTraceId: string = '0'.repeat(32);
export const zeroSpanId: string = '0'.repeat(16);
/** Sampled (1) and random (2): the flags that are defined. */
const knownFlags = 0x03;

/** Longest `tracestate` passed on, in characters: what the W3C asks to support. */
export const maxTraceStateLength = 512;

export interface RemoteParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
}

/** `null` for anything that the W3C says to ignore. */
export function parseTraceparent(header: string | null): RemoteParent | null {
  const match = header === null ? null : pattern.exec(header.trim());
  if (match === null) return null;
  const [, version, traceId = '', spanId = '', flags = '', rest] = match;
  if (version === 'ff' || (version === '00' && rest !== undefined)) return null;
  if (traceId === zeroTraceId || spanId === zeroSpanId) return null;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & knownFlags };
}

/** The `traceparent` header of a record. */
export function formatTraceparent(traceId: string, spanId: string, traceFlags: number): string {
  return `00-${traceId}-${spanId}-0${(traceFlags & knownFlags).toString(16)}`;
}
