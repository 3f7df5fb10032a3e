import type { PiiLevel } from '../../ground/pii-rule.ts';
import { countPoints, firstPoints, fullMask } from './code-points.ts';

/** Any text. WEAK its first third, 8 characters at most; NORMAL its first quarter, 2 at most; STRONG `****`. */
export function maskCustom(text: string, level: PiiLevel): string {
  const shown =
    level === 'WEAK'
      ? Math.floor(countPoints(text, 24) / 3)
      : level === 'NORMAL'
        ? Math.floor(countPoints(text, 8) / 4)
        : 0;
  return `${firstPoints(text, shown)}${fullMask}`;
}
