import { nodeNet } from '../ground/builtins.ts';
import { shared } from '../ground/lifecycle.ts';
import { lazyPattern } from '../ground/names.ts';
import type { FieldRule, PiiLevel, PiiType } from '../ground/pii-rule.ts';

/** The limits of mail servers. */
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
  // An invalid top-level domain is hidden with the rest of the domain.
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

/** `,` `:` `;` `<` `>` separate addresses and names; one address does not contain them. */
function isBetween(unit: number): boolean {
  return unit === 0x2c || (unit >= 0x3a && unit <= 0x3e && unit !== 0x3d);
}

/** At most two characters, and at most half of it. */
function beginning(part: string, end: string, isAscii: boolean): string {
  const length = isAscii ? part.length : countPoints(part, longestOfEmail.domain);
  const start = (count: number) => (isAscii ? part.slice(0, count) : firstPoints(part, count));
  if (length >= 4) return start(2) + stars.slice(0, length - 2) + end;
  // One letter of a domain reveals no more than its ending.
  return `${length > 1 || end !== '' ? start(1) : ''}***${end}`;
}

function isTopLevel(text: string, start: number): boolean {
  for (let index = start; index < text.length; index++) {
    const unit = text.charCodeAt(index) | 0x20;
    if (unit < 0x61 || unit > 0x7a) return topLevel().test(text.slice(start));
  }
  return text.length > start && text.length - start <= 24;
}

/** Replaces a value of which nothing may be shown, not even its length. */
const fullMask = '****';

function pointAt(text: string, at: number): string {
  return text.slice(at, at + (isHigh(text, at) ? 2 : 1));
}

/** The first `count` code points: never half of a surrogate pair. Reads no further than needed. */
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

/** The number of code points, counted up to `most`. */
function countPoints(text: string, max: number): number {
  let count = 0;
  for (let at = 0; at < text.length && count < max; count++) at += isHigh(text, at) ? 2 : 1;
  return count;
}

function isHigh(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  if (unit < 0xd800 || unit > 0xdbff) return false;
  const next = text.charCodeAt(at + 1);
  return next >= 0xdc00 && next <= 0xdfff;
}

// what a mask shows, by the type of data.

/** Returns the visible text of a value. Synchronous and called for every value: it should take at most a microsecond. */
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
 * Adds a masker, which rules name with `masker: name`. The name of a type replaces its masker: `registerMasker('PHONE', …)`.
 * `****` is published if the masker throws, returns something other than a string, returns a text that holds its input, or is
 * not registered.
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

/** The visible text of a value. Never the value itself. */
export function mask(text: string, rule: FieldRule): string {
  if (rule === wholeMask) return differing(text, fullMask);
  const masker = registered.size === 0 ? undefined : registered.get(rule.masker ?? rule.type);
  if (masker !== undefined) return maskOwn(masker, text, rule.level);
  if (rule.masker !== undefined) return differing(text, fullMask);
  // One letter of a boolean reveals all of it.
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
    // The message may hold the value.
  }
  return differing(text, fullMask);
}

function differing(text: string, masked: string): string {
  if (masked !== text) return masked;
  return text === fullMask ? '***' : fullMask;
}

const longest = 128;
const maxWords = 6;

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
  return words > maxWords ? fullMask : masked;
}

function isSpace(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return unit === 0x20 || (unit < 0x80 ? unit >= 0x09 && unit <= 0x0d : text.charAt(at).trim() === '');
}

/** Digits of any script in international notation, with an optional extension. */
const form = lazyPattern(
  String.raw`^(?:tel:)?[\p{Nd}\s+().\-/]{7,40}(?:(?:;?ext\.?=?|x|#) ?\p{Nd}{1,6})?$`,
  'iu',
);
const digits = lazyPattern(String.raw`\p{Nd}`, 'gu');
const numbers = lazyPattern(String.raw`\p{N}`, 'gu');
const threeGroups = /^(\d{3})(-?)(\d{3,4})-?(\d{4})$/;
const max = 20;

/**
 * WEAK hides the last 4 digits. NORMAL turns three groups into `010-****-5678`, and keeps the last 4 digits of other numbers (2
 * of short ones). STRONG hides all digits except the first group of `010-1234-5678`. Punctuation stays. Fewer than 7 digits are
 * not a number.
 */
function maskPhone(text: string, level: PiiLevel): string {
  if (text.length > 64 || !form().test(text)) return fullMask;
  const count = text.match(digits())?.length ?? 0;
  if (count < 7 || count > max) return fullMask;
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

/** WEAK the part after the last comma, its digits hidden (`****, ***** Berlin`); else `****`. */
function maskAddress(text: string, level: PiiLevel): string {
  const comma = text.lastIndexOf(',');
  if (level !== 'WEAK' || comma < 0 || text.length - comma > 64) return fullMask;
  const last = text.slice(comma + 1).trim();
  if (last === '' || /[\r\n]/.test(last) || text.slice(0, comma).trim() === '') return fullMask;
  return `${fullMask}, ${last.replace(numbers(), '*')}`;
}

/** WEAK `411111******1111` (the maximum that PCI DSS allows), NORMAL the last 4 digits, STRONG `****`. 13 to 19 digits. */
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

/** Expands `::`. A dotted end is never among the visible groups. */
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

/** `****6789`, if that shows at most half of it. */
function lastFour(text: string): string {
  if (text.length > 64 || !/^[A-Za-z0-9 ./-]+$/.test(text)) return fullMask;
  const bare = text.replace(/[ ./-]/g, '');
  return bare.length < 8 || bare.length > 32 ? fullMask : `${fullMask}${bare.slice(-4)}`;
}

/**
 * The rule for a value that several rules match: EXCLUDE wins, and rules that differ show nothing. `isWhole`: the value is only
 * a part of the text, so a mask would show the text around it.
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
