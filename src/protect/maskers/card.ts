import type { PiiLevel } from '../../ground/pii-rule.ts';
import { fullMask } from './code-points.ts';

/** WEAK `411111******1111` (the most that PCI DSS lets be shown), NORMAL the last 4 digits, STRONG `****`. 13 to 19 digits. */
export function maskCard(text: string, level: PiiLevel): string {
  if (level === 'STRONG' || text.length > 64 || !/^[\d -]+$/.test(text)) return fullMask;
  const digits = text.replace(/\D/g, '');
  if (digits.length < 13 || digits.length > 19) return fullMask;
  const shown = level === 'WEAK' ? 6 : 0;
  return `${digits.slice(0, shown)}${'*'.repeat(digits.length - shown - 4)}${digits.slice(-4)}`;
}
