import type { PiiLevel } from '../../ground/pii-rule.ts';
import { fullMask } from './code-points.ts';

/** WEAK the last 4 of 8 to 32 letters and digits, else `****`. */
export function maskNationalId(text: string, level: PiiLevel): string {
  return level === 'WEAK' ? lastFour(text) : fullMask;
}

/** `****6789`, where that is half of it at most. */
export function lastFour(text: string): string {
  if (text.length > 64 || !/^[A-Za-z0-9 ./-]+$/.test(text)) return fullMask;
  const bare = text.replace(/[ ./-]/g, '');
  return bare.length < 8 || bare.length > 32 ? fullMask : `${fullMask}${bare.slice(-4)}`;
}
