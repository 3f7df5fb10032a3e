import type { PiiLevel } from '../../ground/pii-rule.ts';
import { fullMask } from './code-points.ts';

/** Digits of any script, as they are written between countries; an extension at the end. */
const form = /^(?:tel:)?[\p{Nd}\s+().\-/]{7,40}(?:(?:;?ext\.?=?|x|#) ?\p{Nd}{1,6})?$/iu;
const threeGroups = /^(\d{3})(-?)(\d{3,4})-?(\d{4})$/;
const most = 20;

/**
 * WEAK hides the last 4 digits; NORMAL makes `010-****-5678` of three groups, and keeps the last 4 digits of other numbers (2 of
 * short ones); STRONG hides all digits but the first group of `010-1234-5678`. Punctuation stays, fewer than 7 digits are no number.
 */
export function maskPhone(text: string, level: PiiLevel): string {
  if (text.length > 64 || !form.test(text)) return fullMask;
  const count = text.match(/\p{Nd}/gu)?.length ?? 0;
  if (count < 7 || count > most) return fullMask;
  const groups = threeGroups.exec(text);
  switch (level) {
    case 'WEAK':
      return hide(text, (index) => index >= count - 4);
    case 'NORMAL':
      if (groups !== null) return `${groups[1]}-****-${groups[4]}`;
      return hide(text, (index) => index < count - (count < 10 ? 2 : 4));
    case 'STRONG':
      if (groups?.[2] === '-' && groups[3]?.length === 4) return `${groups[1]}-****-****`;
      return hide(text, () => true);
  }
}

function hide(text: string, isHidden: (index: number) => boolean): string {
  let index = 0;
  return text.replace(/\p{Nd}/gu, (digit) => (isHidden(index++) ? '*' : digit));
}
