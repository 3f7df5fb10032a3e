// maskers/: what a mask leaves to be seen, by the type of data.

import { nodeNet } from '../../ground/builtins.ts';
import { shared } from '../../ground/lifecycle.ts';
import type { FieldRule, PiiLevel, PiiType } from '../../ground/pii-rule.ts';
import { countPoints, firstPoints, fullMask, lastPoints, pointAt } from './code-points.ts';
import { maskEmail } from './email.ts';

/** Gives the text that may be seen of a value. Synchronous, and called for every value: it should take no longer than a microsecond. */
export type Masker = (text: string, level: PiiLevel) => string;

const builtIn: Readonly<Record<PiiType, Masker>> = {
  NAME: maskName,
  EMAIL: maskEmail,
  PHONE: maskPhone,
  ADDRESS: maskAddress,
  CARD: maskCard,
  NATIONAL_ID: maskNationalId,
  ACCOUNT: maskAccount,
  IP: maskIp,
  CUSTOM: maskCustom,
};

const registered = shared('maskers', () => new Map<string, Masker>());

/**
 * Adds a masker, which rules name with `masker: name`; or replaces the one of a type: `registerMasker('PHONE', …)`.
 *
 * It is not trusted: where it throws, returns anything but a string, or returns a text that holds its input, `****` is
 * published. A rule that names a masker that nobody registered publishes `****` as well.
 */
export function registerMasker(name: string, masker: Masker): void {
  if (typeof name !== 'string' || name === '' || typeof masker !== 'function')
    throw new TypeError('registerMasker needs a name and a function');
  registered.set(name, masker);
}

/** Shows nothing, whatever maskers the application has registered. */
export const wholeMask: FieldRule = {
  type: 'CUSTOM',
  strategy: 'MASK',
  level: 'STRONG',
  keyId: undefined,
  masker: undefined,
};

/** What may be seen of a value. Never the value itself, whatever it is. */
export function mask(text: string, rule: FieldRule): string {
  if (rule === wholeMask) return differing(text, fullMask);
  const masker = registered.size === 0 ? undefined : registered.get(rule.masker ?? rule.type);
  if (masker !== undefined) return maskOwn(masker, text, rule.level);
  if (rule.masker !== undefined) return differing(text, fullMask);
  // One letter of a boolean is all of it.
  if (text === 'true' || text === 'false') return fullMask;
  return differing(text, builtIn[rule.type](text, rule.level));
}

function maskOwn(masker: Masker, text: string, level: PiiLevel): string {
  try {
    const masked: unknown = masker(text, level);
    if (typeof masked === 'string' && masked !== text && (text === '' || !masked.includes(text)))
      return masked;
    if (masked instanceof Promise) masked.catch(() => {});
  } catch {
    // Its message may hold the value.
  }
  return differing(text, fullMask);
}

function differing(text: string, masked: string): string {
  if (masked !== text) return masked;
  return text === fullMask ? '***' : fullMask;
}

const longest = 128;
const mostWords = 6;

/** WEAK `J******e`, NORMAL `J*** D***`, STRONG `****`; a name of one letter shows nothing. */
function maskName(text: string, level: PiiLevel): string {
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

/** Digits of any script, as they are written between countries; an extension at the end. */
const form = /^(?:tel:)?[\p{Nd}\s+().\-/]{7,40}(?:(?:;?ext\.?=?|x|#) ?\p{Nd}{1,6})?$/iu;
const threeGroups = /^(\d{3})(-?)(\d{3,4})-?(\d{4})$/;
const most = 20;

/**
 * WEAK hides the last 4 digits; NORMAL makes `010-****-5678` of three groups, and keeps the last 4 digits of other numbers (2 of
 * short ones); STRONG hides all digits but the first group of `010-1234-5678`. Punctuation stays, fewer than 7 digits are no number.
 */
function maskPhone(text: string, level: PiiLevel): string {
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

/** WEAK the part behind the last comma, its digits hidden (`****, ***** Berlin`); else `****`. */
function maskAddress(text: string, level: PiiLevel): string {
  const comma = text.lastIndexOf(',');
  if (level !== 'WEAK' || comma < 0 || text.length - comma > 64) return fullMask;
  const last = text.slice(comma + 1).trim();
  if (last === '' || /[\r\n]/.test(last) || text.slice(0, comma).trim() === '') return fullMask;
  return `${fullMask}, ${last.replace(/\p{N}/gu, '*')}`;
}

/** WEAK `411111******1111` (the most that PCI DSS lets be shown), NORMAL the last 4 digits, STRONG `****`. 13 to 19 digits. */
function maskCard(text: string, level: PiiLevel): string {
  if (level === 'STRONG' || text.length > 64 || !/^[\d -]+$/.test(text)) return fullMask;
  const digits = text.replace(/\D/g, '');
  if (digits.length < 13 || digits.length > 19) return fullMask;
  const shown = level === 'WEAK' ? 6 : 0;
  return `${digits.slice(0, shown)}${'*'.repeat(digits.length - shown - 4)}${digits.slice(-4)}`;
}

const iban = /^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$/;

/** An IBAN: WEAK `DE89****3000`, NORMAL `DE89****`, STRONG `DE****`. Other account numbers: WEAK the last 4, else `****`. */
function maskAccount(text: string, level: PiiLevel): string {
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

/** WEAK `192.168.1.*` and 3 groups of IPv6, NORMAL `192.168.*.*` and 2 groups, STRONG `****`. */
function maskIp(text: string, level: PiiLevel): string {
  if (level === 'STRONG' || text.length > 64) return fullMask;
  const address = text.trim().replace(/%.*$/, '');
  const mapped = /^::ffff:(?=\d+\.)/i.exec(address)?.[0] ?? '';
  const v4 = address.slice(mapped.length);
  if (nodeNet().isIPv4(v4)) {
    const parts = v4.split('.');
    return (
      mapped + (level === 'WEAK' ? `${parts.slice(0, 3).join('.')}.*` : `${parts.slice(0, 2).join('.')}.*.*`)
    );
  }
  if (!nodeNet().isIPv6(address)) return fullMask;
  return `${groups(address)
    .slice(0, level === 'WEAK' ? 3 : 2)
    .join(':')}:${fullMask}`;
}

/** `::` filled with its zeros. A dotted end is never among the groups that are shown. */
function groups(address: string): string[] {
  const [head = '', tail] = address.toLowerCase().split('::');
  const before = head === '' ? [] : head.split(':');
  if (tail === undefined) return before;
  const after = tail === '' ? [] : tail.split(':');
  const taken = before.length + after.length + (tail.includes('.') ? 1 : 0);
  return [...before, ...new Array<string>(8 - taken).fill('0'), ...after];
}

/** Any text. WEAK its first third, 8 characters at most; NORMAL its first quarter, 2 at most; STRONG `****`. */
function maskCustom(text: string, level: PiiLevel): string {
  const shown =
    level === 'WEAK'
      ? Math.floor(countPoints(text, 24) / 3)
      : level === 'NORMAL'
        ? Math.floor(countPoints(text, 8) / 4)
        : 0;
  return `${firstPoints(text, shown)}${fullMask}`;
}

/** WEAK the last 4 of 8 to 32 letters and digits, else `****`. */
function maskNationalId(text: string, level: PiiLevel): string {
  return level === 'WEAK' ? lastFour(text) : fullMask;
}

/** `****6789`, where that is half of it at most. */
function lastFour(text: string): string {
  if (text.length > 64 || !/^[A-Za-z0-9 ./-]+$/.test(text)) return fullMask;
  const bare = text.replace(/[ ./-]/g, '');
  return bare.length < 8 || bare.length > 32 ? fullMask : `${fullMask}${bare.slice(-4)}`;
}
