import { refusal } from './refusal.ts';
import { readingsOf } from './spellings.ts';

/**
 * From this length on a clear text may not be or hold a protected value: between other characters than letters and digits, and
 * anywhere. Shorter texts and numbers are equal to one, or stand in one, by chance. An expression that reads a marked field is
 * refused whatever its value.
 */
export const shortestShown = { text: 5, number: 8, anywhere: 10 };
const number = /^-?\d+(?:\.\d+)?$/;
/** NFKC makes at most so many characters one. */
const mostComposed = 4;

export interface ClearText {
  readonly of: 'key' | 'header';
  readonly text: string;
}

const refusals = {
  key: ['SVC_PROTECT_KEY_IN_CLEAR', 'the record key', 'another key'],
  header: ['SVC_PROTECT_HEADER_IN_CLEAR', 'a header', 'another one'],
} as const;

/** Texts that leave in clear beside the payload: no protected value may be one of them, or in one. */
export class ClearTexts {
  readonly #texts: readonly ClearText[];
  #folded: readonly FoldedText[] | undefined;
  #longest = 0;

  constructor(texts: readonly ClearText[]) {
    this.#texts = texts;
  }

  /** Throws `SVC_PROTECT_KEY_IN_CLEAR` or `SVC_PROTECT_HEADER_IN_CLEAR` where one of the texts shows this value. */
  check(plain: string): void {
    this.#folded ??= this.#texts.flatMap(({ of, text }) =>
      (isId(text) ? [text] : [text, ...readingsOf(text)]).map((each) => foldedOf(of, fold(each))),
    );
    if (this.#longest === 0) this.#longest = Math.max(1, ...this.#folded.map(({ text }) => text.length));
    if (plain.length > this.#longest * mostComposed) return;
    const folded = fold(plain);
    this.#compare(folded);
    if (this.#folded.some(({ letters }) => letters !== '')) this.#compareLetters(squeeze(folded));
    if (isIsoTime(plain)) for (const form of formsOfTime(plain)) this.#compare(form);
  }

  #compare(value: string): void {
    for (const { of, text } of this.#folded ?? []) if (shows(text, value)) throw shown(of);
  }

  #compareLetters(value: string): void {
    if (value.length < shortestShown.anywhere) return;
    for (const { of, letters } of this.#folded ?? []) if (letters.includes(value)) throw shown(of);
  }
}

const isUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** Ids as most keys are: nothing is escaped in them. */
const isId = (text: string): boolean => /^[A-Za-z]{0,20}[-_:.]?\d{0,20}$/.test(text) || isUuid.test(text);

interface FoldedText extends ClearText {
  /** Its letters and digits; empty where no value is as short, and of a UUID. */
  readonly letters: string;
}

function foldedOf(of: ClearText['of'], text: string): FoldedText {
  return {
    of,
    text,
    letters: text.length < shortestShown.anywhere || isUuid.test(text) ? '' : squeeze(text),
  };
}

function shown(of: ClearText['of']): Error {
  const [code, what, instead] = refusals[of];
  return refusal(
    code,
    `${what} is or holds the value of a marked field, and would go out in clear: declare ${instead}`,
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

/** A day alone only of times that mean one: the day of any other is in many keys. */
function formsOfTime(text: string): string[] {
  const milliseconds = Date.parse(text);
  if (Number.isNaN(milliseconds)) return [];
  return text.endsWith('T00:00:00.000Z') ? [String(milliseconds), text.slice(0, 10)] : [String(milliseconds)];
}

/**
 * A text without what spellings of one value differ in: forms of characters, upper and lower case, space around it, more than one
 * space and what nobody sees. Upper case, as a lower-case sigma depends on what follows it.
 */
export function fold(text: string): string {
  if (isAscii.test(text)) {
    const upper = text.toUpperCase().trim();
    return spaces.test(upper) ? upper.replace(/\s+/g, ' ') : upper;
  }
  const folded = text.normalize('NFKC').toUpperCase().trim();
  return odd.test(folded) ? folded.replace(unseen, '').replace(/\s+/g, ' ').trim() : folded;
}
/** Letters and digits without marks: separators, spaces, quotes and accents are what spellings of a value differ in most. */
export function squeeze(folded: string): string {
  if (isAscii.test(folded)) return folded.replace(/[^A-Za-z0-9]+/g, '');
  return folded.normalize('NFKD').replace(/[^\p{L}\p{N}]+/gu, '');
}

// Nearly all texts, and ten times as quick without the tables of Unicode.
const isAscii = /^[\0-\x7f]*$/;
const spaces = /\s\s/;
const odd = /\p{Cf}|\s\s/u;
const unseen = /\p{Cf}/gu;

const letterOrDigit = /[\p{L}\p{N}]/u;

/** Whether `part` stands in `text` with no letter or digit beside it. */
export function holdsWord(text: string, part: string): boolean {
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
    if (!isInWord(text, at - 1) && !isInWord(text, at + part.length)) return true;
  }
  return false;
}

function isInWord(text: string, at: number): boolean {
  return at >= 0 && at < text.length && letterOrDigit.test(text.charAt(at));
}
