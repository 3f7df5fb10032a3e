import { isUtf8 } from 'node:buffer';
import { uuidForm } from '../ground/event-fields.ts';
import { lazyPattern } from '../ground/names.ts';
import { type Budget, refusal } from './budget.ts';

/**
 * A clear text of this length must not be or hold a protected value. `anywhere`: also between letters and digits. Shorter ones
 * match by chance. An expression that reads a marked field is refused, whatever its value.
 */
export const shortestShown = { text: 5, number: 8, anywhere: 10 };
const number = /^-?\d+(?:\.\d+)?$/;
/** NFKC composes at most this many characters into one. */
const mostComposed = 4;

export interface ClearText {
  readonly of: 'key' | 'header';
  readonly text: string;
}

const refusals = {
  key: ['SVC_PROTECT_KEY_IN_CLEAR', 'the record key', 'another key'],
  header: ['SVC_PROTECT_HEADER_IN_CLEAR', 'a header', 'another one'],
} as const;

/** Texts that leave in clear beside the payload. None of them may be or hold a protected value. */
export class ClearTexts {
  readonly #texts: readonly ClearText[];
  readonly #budget: Budget;
  #folded: readonly FoldedText[] | undefined;
  #longest = 0;

  constructor(texts: readonly ClearText[], budget: Budget) {
    this.#texts = texts;
    this.#budget = budget;
  }

  /** Throws `SVC_PROTECT_KEY_IN_CLEAR` or `SVC_PROTECT_HEADER_IN_CLEAR` if one of the texts shows this value. */
  check(plain: string): void {
    this.#folded ??= this.#texts.flatMap(({ of, text }) =>
      this.#formsOf(text).map((each) => foldedOf(of, fold(each))),
    );
    if (this.#longest === 0) this.#longest = Math.max(1, ...this.#folded.map(({ text }) => text.length));
    if (plain.length > this.#longest * mostComposed) return;
    const folded = fold(plain);
    this.#compare(folded);
    if (this.#folded.some(({ letters }) => letters !== '')) this.#compareLetters(squeeze(folded));
    if (isIsoTime(plain)) for (const form of formsOfTime(plain)) this.#compare(form);
  }

  #formsOf(text: string): readonly string[] {
    if (isId(text)) return [text];
    return [text, ...readingsOf(text, (length) => this.#budget.spendReading(length))];
  }

  #compare(value: string): void {
    for (const { of, text } of this.#folded ?? []) if (shows(text, value)) throw shown(of);
  }

  #compareLetters(value: string): void {
    if (value.length < shortestShown.anywhere) return;
    for (const { of, letters } of this.#folded ?? []) if (letters.includes(value)) throw shown(of);
  }
}

/** Most keys are ids, and ids contain no escapes. */
const isId = (text: string): boolean => /^[A-Za-z]{0,20}[-_:.]?\d{0,20}$/.test(text) || uuidForm.test(text);

interface FoldedText extends ClearText {
  /** Its letters and digits. Empty for a UUID and for a text that is too short to match. */
  readonly letters: string;
}

function foldedOf(of: ClearText['of'], text: string): FoldedText {
  return {
    of,
    text,
    letters: text.length < shortestShown.anywhere || uuidForm.test(text) ? '' : squeeze(text),
  };
}

function shown(of: ClearText['of']): Error {
  const [code, what, instead] = refusals[of];
  return refusal(
    code,
    `${what} is or holds the value of a marked field, and would be published in clear: declare ${instead}`,
  );
}

function shows(text: string, value: string): boolean {
  if (value.length >= shortestShown.anywhere) return text.includes(value);
  if (value.length < (number.test(value) ? shortestShown.number : shortestShown.text)) return false;
  return holdsWord(text, value);
}

function isIsoTime(text: string): boolean {
  return text.length === 24 && text.charAt(10) === 'T' && text.endsWith('Z');
}

/** The day alone is added only for dates at midnight: any other day stands in many keys. */
function formsOfTime(text: string): string[] {
  const milliseconds = Date.parse(text);
  if (Number.isNaN(milliseconds)) return [];
  return text.endsWith('T00:00:00.000Z') ? [String(milliseconds), text.slice(0, 10)] : [String(milliseconds)];
}

/**
 * The same text for each spelling of a value: spellings differ in Unicode form, case, spaces and invisible characters. Upper
 * case, because a lower-case sigma depends on the next character.
 */
export function fold(text: string): string {
  if (isAscii.test(text)) {
    const upper = text.toUpperCase().trim();
    return spaces.test(upper) ? upper.replace(/\s+/g, ' ') : upper;
  }
  const folded = text.normalize('NFKC').toUpperCase().trim();
  return odd().test(folded) ? folded.replace(unseen(), '').replace(/\s+/g, ' ').trim() : folded;
}

/** Letters and digits only: most spellings differ in separators, spaces, quotes and accents. */
export function squeeze(folded: string): string {
  if (isAscii.test(folded)) return folded.replace(/[^A-Za-z0-9]+/g, '');
  return folded.normalize('NFKD').replace(separators(), '');
}

// Nearly all texts are ASCII and need no Unicode tables.
const isAscii = /^[\0-\x7f]*$/;
const spaces = /\s\s/;
const odd = lazyPattern(String.raw`\p{Cf}|\s\s`, 'u');
const unseen = lazyPattern(String.raw`\p{Cf}`, 'gu');
const separators = lazyPattern(String.raw`[^\p{L}\p{N}]+`, 'gu');

export const letterOrDigit = lazyPattern(String.raw`[\p{L}\p{N}]`, 'u');

/** Whether `part` stands in `text` with no letter or digit beside it. */
export function holdsWord(text: string, part: string): boolean {
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
    if (!isInWord(text, at - 1) && !isInWord(text, at + part.length)) return true;
  }
  return false;
}

function isInWord(text: string, at: number): boolean {
  return at >= 0 && at < text.length && letterOrDigit().test(text.charAt(at));
}

/** Nested encodings, such as JSON in a URL in JSON. */
const mostLevels = 8;
const mostReadings = 48;
const base64Run = /[A-Za-z0-9+/_-]{11,}={0,2}/g;
const hexRun = /(?:0x|\\x)?[0-9a-f]{2}(?:[\s:,-]{0,2}(?:0x|\\x)?[0-9a-f]{2}){4,}/gi;
const mayBeEscaped =
  /[\\%&+=]|\d{2}, ?\d{2}|''|""|[A-Za-z0-9+/_-]{11}|[0-9a-f]{2}[\s:,-]{1,2}(?:0x)?[0-9a-f]{2}[\s:,-]/i;

/**
 * The decoded readings of a text that is or holds JSON, a URL, HTML, CSS, CSV, SQL, Base64 or hexadecimal: `O\"Brien`, `a%40b`,
 * `a&#64;b`, `O''Brien`. Empty if nothing is encoded. `spend` gets the length of each reading and throws if it is too much for
 * one event.
 */
export function readingsOf(text: string, spend: (length: number) => void): readonly string[] {
  if (!mayBeEscaped.test(text)) return [];
  const readings = new Set<string>();
  let level = [text];
  for (let depth = 0; depth < mostLevels && level.length > 0; depth++) {
    const next: string[] = [];
    for (const each of level) {
      for (const [sign, decode] of decoders) {
        if (!sign.test(each)) continue;
        const reading = decode(each);
        if (reading === each || reading === text || readings.has(reading)) continue;
        if (readings.size === mostReadings) return [...readings];
        spend(reading.length);
        readings.add(reading);
        next.push(reading);
      }
    }
    level = next;
  }
  return [...readings];
}

const controls: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' };
/** Code points from 160 on. */
const latin =
  'nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest ' +
  'agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml times oslash ugrave uacute ucirc uuml yacute thorn szlig';
/** HTML has upper-case and lower-case names; the comparison ignores case. */
const latinNames = latin.split(' ');
const entities: Readonly<Record<string, string>> = {
  ...Object.fromEntries(latinNames.map((name, index) => [name, String.fromCharCode(160 + index)])),
  ...{ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' },
  ...{ commat: '@', period: '.', plus: '+', colon: ':', sol: '/', lowbar: '_', num: '#' },
};

function unescapeJson(text: string): string {
  return text.replace(
    /\\(?:u\{([0-9a-f]{1,6})\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([0-7]{2,3})|([^ux]))/gi,
    (whole, braced?: string, four?: string, two?: string, octal?: string, other?: string) => {
      const code = braced ?? four ?? two;
      if (code !== undefined) return characterOf(Number.parseInt(code, 16)) ?? whole;
      if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8));
      return controls[other ?? ''] ?? other ?? whole;
    },
  );
}

function unescapeUrl(text: string): string {
  return text
    .replace(/%u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replace(/(?:%[0-9a-f]{2})+/gi, (escaped) => {
      const bytes = Buffer.from(escaped.replaceAll('%', ''), 'hex');
      return bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1');
    });
}

function unescapeCss(text: string): string {
  return text.replace(
    /\\([0-9a-f]{1,6})\s?/gi,
    (whole, code: string) => characterOf(Number.parseInt(code, 16)) ?? whole,
  );
}

/** Quotes of CSV, SQL and shells. */
function unquote(text: string): string {
  return text.replaceAll("'\\''", "'").replace(/(['"])\1/g, '$1');
}

function unquoteMail(text: string): string {
  return text.replace(/(?:=[0-9A-F]{2})+/g, (escaped) => {
    const bytes = Buffer.from(escaped.replaceAll('=', ''), 'hex');
    return bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1');
  });
}

/** Code points or bytes as numbers, as in the JSON of a buffer. */
function decodeNumbers(text: string): string {
  return text.replace(/\b\d{2,3}(?:, ?\d{2,3}){3,}\b/g, (run) => {
    const numbers = run.split(',').map(Number);
    return (numbers.every((each) => each < 256) ? textIn(Buffer.from(numbers)) : undefined) ?? run;
  });
}

/** Base64 may contain line breaks. */
function unwrap(text: string): string {
  return text.replace(/(?<=[A-Za-z0-9+/]{40})\r?\n/g, '');
}

function decodeBase64(text: string): string {
  return text.replace(base64Run, (run) => textIn(Buffer.from(run, 'base64')) ?? run);
}

function decodeHex(text: string): string {
  return text.replace(hexRun, (run) => {
    const digits = run.replace(/0x|\\x|[^0-9a-f]/gi, '');
    return textIn(Buffer.from(digits, 'hex')) ?? run;
  });
}

/** `undefined` for bytes that are not text: most matches of the Base64 pattern are something else. */
function textIn(bytes: Buffer): string | undefined {
  const isWide = bytes.length % 2 === 0 && bytes.length > 3 && bytes[1] === 0 && bytes[3] === 0;
  if (!isWide && !isUtf8(bytes)) return undefined;
  const text = bytes.toString(isWide ? 'utf16le' : 'utf8');
  return isShown().test(text) ? text : undefined;
}
const isShown = lazyPattern(String.raw`^[^\p{Cc}\p{Cn}\p{Co}]*(?:[\r\n\t][^\p{Cc}\p{Cn}\p{Co}]*)*$`, 'u');

function unescapeForm(text: string): string {
  return unescapeUrl(text.replaceAll('+', ' '));
}

function unescapeHtml(text: string): string {
  return text.replace(
    /&(?:#0*(\d{1,7})|#x0*([0-9a-f]{1,6})|([a-z]{2,6}\d{0,2}));?/gi,
    (whole, decimal?: string, hex?: string, name?: string) => {
      if (name !== undefined) return entities[name.toLowerCase()] ?? whole;
      return characterOf(decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal)) ?? whole;
    },
  );
}

function characterOf(code: number): string | undefined {
  return code <= 0x10_ffff ? String.fromCodePoint(code) : undefined;
}

/** `sign` tells cheaply whether there is something to decode. */
const decoders: readonly (readonly [sign: RegExp, decode: (text: string) => string])[] = [
  ...([
    [/\\/, unescapeJson],
    [/%/, unescapeUrl],
    [/[%+]/, unescapeForm],
    [/&/, unescapeHtml],
  ] as const),
  ...([
    [/''|""|\\/, unquote],
    [/\n/, unwrap],
    [/[A-Za-z0-9+/_-]{11}/, decodeBase64],
  ] as const),
  ...([
    [/[0-9a-f]{2}[\s:,-]{0,2}(?:0x|\\x)?[0-9a-f]{2}/i, decodeHex],
    [/\d,/, decodeNumbers],
    [/\\/, unescapeCss],
    [/=/, unquoteMail],
  ] as const),
];

/** Shorter texts occur by chance in the Base64 of another text. */
const shortestEncoded = 8;
const mayBeEncoded = /[A-Za-z0-9+/_-]{10}/;

/** Whether a text may hold another one, of at least eight characters, in Base64 or hexadecimal. */
export function mayHoldEncoded(text: string): boolean {
  return mayBeEncoded.test(text);
}

/**
 * The parts of a text that are the same in every Base64 or hexadecimal form of a longer text around it. Base64 has three
 * alignments, and the first and last characters depend on the surrounding text.
 */
export function encodingsOf(text: string): readonly string[] {
  if (text.length < shortestEncoded) return [];
  const bytes = Buffer.from(text);
  const parts = [bytes.toString('hex')];
  for (let before = 0; before < 3; before++) {
    const base64 = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64url');
    const first = Math.ceil((before * 4) / 3);
    const end = Math.floor(((before + bytes.length) * 4) / 3);
    const part = base64.slice(first, end);
    parts.push(part);
    if (/[-_]/.test(part)) parts.push(part.replaceAll('-', '+').replaceAll('_', '/'));
  }
  return parts;
}
