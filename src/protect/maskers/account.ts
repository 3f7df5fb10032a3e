import type { PiiLevel } from '../../ground/pii-rule.ts';
import { fullMask } from './code-points.ts';
import { lastFour } from './national-id.ts';

const iban = /^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$/;

/** An IBAN: WEAK `DE89****3000`, NORMAL `DE89****`, STRONG `DE****`. Other account numbers: WEAK the last 4, else `****`. */
export function maskAccount(text: string, level: PiiLevel): string {
  const bare = text.length > 64 ? '' : text.replace(/\s/g, '').toUpperCase();
  if (!iban.test(bare)) return level === 'WEAK' ? lastFour(text) : fullMask;
  switch (level) {
    case 'WEAK':
      return `${bare.slice(0, 4)}${fullMask}${bare.slice(-4)}`;
    case 'NORMAL':
      return `${bare.slice(0, 4)}${fullMask}`;
    case 'STRONG':
      return `${bare.slice(0, 2)}${fullMask}`;
  }
}
