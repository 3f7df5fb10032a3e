import { nodeNet } from '../ground/builtins.ts';
import { shared } from '../ground/lifecycle.ts';
import { lazyPattern } from '../ground/names.ts';
import type { FieldRule, PiiLevel, PiiType } from '../ground/pii-rule.ts';

/** What mail servers accept. */
const longestOfEmail = { local: 64, domain: 255 };
const topLevel = lazyPattern(String.raw`^(?:[\p{L}\p{M}]{1,24}|xn--[a-z0-9-]{1,59})$`, 'u');
const stars = '*'.repeat(longestOfEmail.domain);
const [at, dot, space] = [0x40, 0x2e, 0x20];

/** WEAK `joh***@gmail.com`, NORMAL `jo******@gm***.com`, STRONG `***@***.com`; short parts show less. */
function maskEmail(text: string, level: PiiLevel): string {
  if (text.length > longestOfEmail.local + 1 + longestOfEmail.domain) return fullMask;
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
  if (split < 1 || split > longestOfEmail.local || split === text.length - 1) return fullMask;
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
  const length = isAscii ? part.length : countPoints(part, longestOfEmail.domain);
  const start = (count: number) => (isAscii ? part.slice(0, count) : firstPoints(part, count));
  if (length >= 4) return start(2) + stars.slice(0, length - 2) + end;
  // One letter of a domain tells no more than its ending does.
  return `${length > 1 || end !== '' ? start(1) : ''}***${end}`;
}

function isTopLevel(text: string, start: number): boolean {
  for (let index = start; index < text.length; index++) {
    const unit = text.charCodeAt(index) | 0x20;
    if (unit < 0x61 || unit > 0x7a) return topLevel().test(text.slice(start));
  }
  return text.length > start && text.length - start <= 24;
}

/** What stands for a hidden value of which nothing may be told, its length included. */
const fullMask = '****';

/** The code point that begins there. */
function pointAt(text: string, at: number): string {
  return text.slice(at, at + (isHigh(text, at) ? 2 : 1));
}

/** The first `count` code points: never half of a pair of surrogates. Reads no more than it needs. */
function firstPoints(text: string, count: number): string {
  let at = 0;
  for (let point = 0; point < count && at < text.length; point++) at += isHigh(text, at) ? 2 : 1;
  return text.slice(0, at);
}

/** The last `count` code points. */
function lastPoints(text: string, count: number): string {
  let at = text.length;
  for (let point = 0; point < count && at > 0; point++) at -= at > 1 && isHigh(text, at - 2) ? 2 : 1;
  return text.slice(at);
}

/** How many code points, counted up to `most`. */
function countPoints(text: string, most: number): number {
  let count = 0;
  for (let at = 0; at < text.length && count < most; count++) at += isHigh(text, at) ? 2 : 1;
  return count;
}

function isHigh(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  if (unit < 0xd800 || unit > 0xdbff) return false;
  const next = text.charCodeAt(at + 1);
  return next >= 0xdc00 && next <= 0xdfff;
}

// what a mask leaves to be seen, by the type of data.

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
const wholeMask: FieldRule = {
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
const form = lazyPattern(
  String.raw`^(?:tel:)?[\p{Nd}\s+().\-/]{7,40}(?:(?:;?ext\.?=?|x|#) ?\p{Nd}{1,6})?$`,
  'iu',
);
const digits = lazyPattern(String.raw`\p{Nd}`, 'gu');
const numbers = lazyPattern(String.raw`\p{N}`, 'gu');
const threeGroups = /^(\d{3})(-?)(\d{3,4})-?(\d{4})$/;
const most = 20;

/**
 * WEAK hides the last 4 digits; NORMAL makes `010-****-5678` of three groups, and keeps the last 4 digits of other numbers (2 of
 * short ones); STRONG hides all digits but the first group of `010-1234-5678`. Punctuation stays, fewer than 7 digits are no number.
 */
function maskPhone(text: string, level: PiiLevel): string {
  if (text.length > 64 || !form().test(text)) return fullMask;
  const count = text.match(digits())?.length ?? 0;
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
  return text.replace(digits(), (digit) => (isHidden(index++) ? '*' : digit));
}

/** WEAK the part behind the last comma, its digits hidden (`****, ***** Berlin`); else `****`. */
function maskAddress(text: string, level: PiiLevel): string {
  const comma = text.lastIndexOf(',');
  if (level !== 'WEAK' || comma < 0 || text.length - comma > 64) return fullMask;
  const last = text.slice(comma + 1).trim();
  if (last === '' || /[\r\n]/.test(last) || text.slice(0, comma).trim() === '') return fullMask;
  return `${fullMask}, ${last.replace(numbers(), '*')}`;
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

/**
 * What holds for a value that several rules mean: it is left out where one of them says so, and shows nothing where they differ.
 * `isWhole`: the value is only a part of the text, so that a mask would show what stands around it in its place.
 */
export function strictest(rules: readonly FieldRule[], isWhole: boolean): FieldRule | undefined {
  const [first] = rules;
  if (first === undefined) return undefined;
  const excluding = rules.find(({ strategy }) => strategy === 'EXCLUDE');
  if (excluding !== undefined) return excluding;
  if (!rules.every((rule) => doesTheSame(rule, first))) return wholeMask;
  return isWhole && first.strategy === 'MASK' ? wholeMask : first;
}

function doesTheSame(one: FieldRule, other: FieldRule): boolean {
  if (one === other) return true;
  if (one.strategy !== other.strategy) return false;
  switch (one.strategy) {
    case 'MASK':
      return one.type === other.type && one.level === other.level && one.masker === other.masker;
    case 'ENCRYPT':
      return one.keyId === other.keyId;
    default:
      return true;
  }
}
