import { uuidForm } from '../ground/event-id.ts';
import type { Budget } from './budget.ts';
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
  readonly #budget: Budget;
  #folded: readonly FoldedText[] | undefined;
  #longest = 0;

  constructor(texts: readonly ClearText[], budget: Budget) {
    this.#texts = texts;
    this.#budget = budget;
  }

  /** Throws `SVC_PROTECT_KEY_IN_CLEAR` or `SVC_PROTECT_HEADER_IN_CLEAR` where one of the texts shows this value. */
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

/** Most keys are ids, and nothing is escaped in an id. */
const isId = (text: string): boolean => /^[A-Za-z]{0,20}[-_:.]?\d{0,20}$/.test(text) || uuidForm.test(text);

interface FoldedText extends ClearText {
  /** Its letters and digits. Empty for a UUID, and for a text that is shorter than any value that is looked for. */
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
 * The same text for each spelling of a value. Spellings differ in forms of characters, case, spaces and invisible characters.
 * The result is in upper case, because a lower-case sigma depends on what follows it.
 */
export function fold(text: string): string {
  if (isAscii.test(text)) {
    const upper = text.toUpperCase().trim();
    return spaces.test(upper) ? upper.replace(/\s+/g, ' ') : upper;
  }
  const folded = text.normalize('NFKC').toUpperCase().trim();
  return odd.test(folded) ? folded.replace(unseen, '').replace(/\s+/g, ' ').trim() : folded;
}

/** Letters and digits alone: spellings of a value differ most in separators, spaces, quotes and accents. */
export function squeeze(folded: string): string {
  if (isAscii.test(folded)) return folded.replace(/[^A-Za-z0-9]+/g, '');
  return folded.normalize('NFKD').replace(/[^\p{L}\p{N}]+/gu, '');
}

// Nearly all texts are ASCII and need no tables of Unicode.
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
