import type { PiiLevel } from '../../ground/pii-rule.ts';
import { countPoints, firstPoints, fullMask, lastPoints, pointAt } from './code-points.ts';

const longest = 128;
const mostWords = 6;

/** WEAK `J******e`, NORMAL `J*** D***`, STRONG `****`; a name of one letter shows nothing. */
export function maskName(text: string, level: PiiLevel): string {
  const name = text.trim();
  if (level === 'STRONG' || name.length > longest) return fullMask;
  if (pointAt(name, 0).length === name.length) return fullMask;
  if (level === 'WEAK') {
    const length = countPoints(name, longest);
    if (length < 4) return `${firstPoints(name, 1)}**`;
    return `${firstPoints(name, 1)}${'*'.repeat(length - 2)}${lastPoints(name, 1)}`;
  }
  let masked = '';
  let words = 0;
  for (let at = 0; at < name.length; words++) {
    let end = at;
    while (end < name.length && !isSpace(name, end)) end++;
    const first = pointAt(name, at);
    if (words > 0) masked += ' ';
    masked += end - at === first.length ? fullMask : `${first}***`;
    while (end < name.length && isSpace(name, end)) end++;
    at = end;
  }
  return words > mostWords ? fullMask : masked;
}

function isSpace(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return unit === 0x20 || (unit < 0x80 ? unit >= 0x09 && unit <= 0x0d : text.charAt(at).trim() === '');
}
