import type { PiiLevel } from '../../ground/pii-rule.ts';
import { fullMask } from './code-points.ts';

/** WEAK the part behind the last comma, its digits hidden (`****, ***** Berlin`); else `****`. */
export function maskAddress(text: string, level: PiiLevel): string {
  const comma = text.lastIndexOf(',');
  if (level !== 'WEAK' || comma < 0 || text.length - comma > 64) return fullMask;
  const last = text.slice(comma + 1).trim();
  if (last === '' || /[\r\n]/.test(last) || text.slice(0, comma).trim() === '') return fullMask;
  return `${fullMask}, ${last.replace(/\p{N}/gu, '*')}`;
}
