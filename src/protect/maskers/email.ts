import type { PiiLevel } from '../../ground/pii-rule.ts';
import { countPoints, firstPoints, fullMask } from './code-points.ts';

/** What mail servers accept. */
const longest = { local: 64, domain: 255 };
const topLevel = /^(?:[\p{L}\p{M}]{1,24}|xn--[a-z0-9-]{1,59})$/u;
const stars = '*'.repeat(longest.domain);
const [at, dot, space] = [0x40, 0x2e, 0x20];

/** WEAK `joh***@gmail.com`, NORMAL `jo******@gm***.com`, STRONG `***@***.com`; short parts show less. */
export function maskEmail(text: string, level: PiiLevel): string {
  if (text.length > longest.local + 1 + longest.domain) return fullMask;
  let split = -1;
  let lastDot = -1;
  let isAscii = true;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit === at) {
      if (split >= 0) return fullMask;
      split = index;
    } else if (unit === dot) lastDot = index;
    else if (unit <= space || isBetween(unit)) return fullMask;
    else if (unit > 0x7f) {
      if (text.charAt(index).trim() === '') return fullMask;
      isAscii = false;
    }
  }
  if (split < 1 || split > longest.local || split === text.length - 1) return fullMask;
  const local = text.slice(0, split);
  if (lastDot < split + 2) lastDot = text.length;
  // An ending that is none is hidden with the rest of the domain.
  const end = isTopLevel(text, lastDot + 1) ? text.slice(lastDot) : '';
  switch (level) {
    case 'WEAK':
      return `${firstPoints(local, Math.min(3, countPoints(local, 6) >> 1))}***${text.slice(split)}`;
    case 'NORMAL':
      return `${beginning(local, '', isAscii)}@${beginning(text.slice(split + 1, lastDot), end, isAscii)}`;
    case 'STRONG':
      return `***@***${end}`;
  }
}

/** `,` `:` `;` `<` `>` stand between addresses and names, not in one address. */
function isBetween(unit: number): boolean {
  return unit === 0x2c || (unit >= 0x3a && unit <= 0x3e && unit !== 0x3d);
}

/** Two characters where they are half of it at most, else one, else none. */
function beginning(part: string, end: string, isAscii: boolean): string {
  const length = isAscii ? part.length : countPoints(part, longest.domain);
  const start = (count: number) => (isAscii ? part.slice(0, count) : firstPoints(part, count));
  if (length >= 4) return start(2) + stars.slice(0, length - 2) + end;
  // One letter of a domain tells no more than its ending does.
  return `${length > 1 || end !== '' ? start(1) : ''}***${end}`;
}

function isTopLevel(text: string, start: number): boolean {
  for (let index = start; index < text.length; index++) {
    const unit = text.charCodeAt(index) | 0x20;
    if (unit < 0x61 || unit > 0x7a) return topLevel.test(text.slice(start));
  }
  return text.length > start && text.length - start <= 24;
}
