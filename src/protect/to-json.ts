import { isTooBig } from '../ground/bounds.ts';
import type { FieldRule } from '../ground/pii-rule.ts';
import type { Budget } from './budget.ts';
import { type ClearTexts, fold, holdsWord, squeeze } from './clear-texts.ts';
import { type ClassMarks, readMarked } from './marks/class-marks.ts';
import { strictest } from './maskers/strictest.ts';
import { attempt, contentsOf, formsOfDate, type HoldingRules, heldMarked, shownInside } from './parts-of.ts';
import { encodingsOf, mayHoldEncoded, readingsOf } from './spellings.ts';

/**
 * The marks of a class whose `toJSON` decides what its JSON looks like: they go for keys of the same name anywhere in it, and for
 * the marked values themselves under whatever name.
 */
export interface MarkedValues {
  readonly marks: ClassMarks;
  /**
   * The rule for a text that `toJSON` returned, at whose place `given` holds. Where the text is a marked value it is that of its
   * field; where it holds one among other text, as it is or escaped, it shows nothing of it; where several meet, the strictest. A
   * marked field whose text is not known is in every text that is not the value of another one.
   *
   * @param isOfPath whether a path rule gives it for this very place: that decides, but shows no part of what a mark hides
   * @param key that the text stands at
   */
  ruleOfText(
    text: string,
    given: FieldRule | undefined,
    isOfPath: boolean,
    key?: string | symbol | undefined,
  ): FieldRule | undefined;
  /** The rule of the marked field whose value this object is, or stands in. */
  ruleOfObject(object: object): FieldRule | undefined;
  /** Adds the rules of the marked values that a folded text is, or holds. `key`: that it stands at, as a whole. */
  find(folded: string, found: Found, key?: string | symbol | undefined): void;
}

interface Found {
  readonly same: FieldRule[];
  readonly held: FieldRule[];
}

/** Numbers of fewer digits stand anywhere by chance; shorter texts are looked for as words of their own, and single characters not. */
const shortest = { number: 4, part: 5, word: 2, squeezed: 8 };
/** As deep as a payload may be. */
const maxDepth = 64;
const comparisonsBetweenLooks = 1_024;

interface ReadingRules {
  readonly budget: Budget;
  readonly clear: ClearTexts | undefined;
  /** Told of a field that holds an object whose text cannot be read. */
  readonly onUnreadable?: ((field: string) => void) | undefined;
}

const noMarks: ClassMarks = new Map();

/**
 * Reads the marked fields once: of the object, and of those with marks that it holds, which its `toJSON` may have copied as
 * models of an ORM do. `outer`: of an object that this one stands in. `undefined` where nothing is marked.
 */
export function markedValuesOf(
  object: object,
  marks: ClassMarks | null,
  outer: MarkedValues | undefined,
  rules: ReadingRules & HoldingRules,
): MarkedValues | undefined {
  const held = heldMarked(object, rules);
  if (marks === null && held.length === 0) return outer;
  const { budget, clear, onUnreadable } = rules;
  const texts = new Map<string, FieldRule[]>();
  const objects = new Map<object, FieldRule[]>();
  /** Of marked fields that may hold a text which nobody but their class can read. */
  const unknown: FieldRule[] = [];
  /** As they are given, for their encoded forms. */
  const plains = new Map<string, FieldRule[]>();
  /** By the name of their field: such values of held objects are known there, however short. */
  const named = new Map<string, Map<string, FieldRule[]>>();
  /** Their letters and digits. */
  const letters = new Map<string, FieldRule[]>();
  let encoded: ReadonlyMap<string, FieldRule[]> | undefined;
  let compared = 0;

  /** `counts`: a text that cannot be read there has not been read elsewhere. */
  function take(value: unknown, rule: FieldRule, depth: number, counts: boolean): void {
    if (typeof value === 'object' && value !== null) takeObject(value, rule, depth, counts);
    else if (typeof value === 'string' || isLongNumber(value)) {
      takeText(String(value), rule);
      for (const form of formsOfDate(new Date(timeOf(value)))) takeText(String(form), rule);
    } else if (typeof value === 'symbol') takeText(value.description ?? '', rule);
    else if (typeof value === 'function' && counts) noteUnknown(rule);
  }

  function noteUnknown(rule: FieldRule): void {
    if (!unknown.includes(rule)) unknown.push(rule);
  }

  function takeText(text: string, rule: FieldRule): void {
    clear?.check(text);
    budget.spendText(text.length);
    const folded = fold(text);
    if (folded === '') return;
    add(texts, folded, rule);
    add(plains, text, rule);
    const squeezed = squeeze(folded);
    if (squeezed.length >= shortest.squeezed) add(letters, squeezed, rule);
  }

  function takeObject(value: object, rule: FieldRule, depth: number, counts: boolean): void {
    if (objects.get(value)?.includes(rule)) return;
    add(objects, value, rule);
    if (depth > maxDepth) {
      if (counts) noteUnknown(rule);
      return;
    }
    const { parts, inner, isWhole } = contentsOf(value, budget);
    if (!isWhole && counts) noteUnknown(rule);
    if (!isWhole && !counts) for (const part of shownInside(value)) take(part, rule, depth + 1, false);
    for (const part of parts) take(part, rule, depth + 1, counts);
    for (const part of inner) take(part, rule, depth + 1, false);
  }

  function encodedTexts(): ReadonlyMap<string, FieldRule[]> {
    if (encoded !== undefined) return encoded;
    const made = new Map<string, FieldRule[]>();
    for (const [plain, rules] of plains)
      for (const part of encodingsOf(plain)) for (const rule of rules) add(made, fold(part), rule);
    encoded = made;
    return made;
  }

  function takeFields(of: object, fields: ClassMarks, isHeld: boolean): void {
    budget.spend(fields.size);
    for (const [field, rule] of fields) {
      const value = attempt(() => readMarked(of, field, rule));
      const before = unknown.length;
      take(value, rule, 0, true);
      if (unknown.length > before) onUnreadable?.(field);
      if (!isHeld || !hasText(value)) continue;
      const texts = named.get(field) ?? new Map<string, FieldRule[]>();
      add(texts, fold(String(value)), rule);
      named.set(field, texts);
    }
  }

  if (marks !== null) takeFields(object, marks, false);
  for (const [one, fields] of held) takeFields(one, fields, true);

  const values: MarkedValues = {
    marks: outer === undefined ? (marks ?? noMarks) : new Map([...outer.marks, ...(marks ?? noMarks)]),

    ruleOfObject(value) {
      const rules = objects.get(value);
      return rules === undefined ? outer?.ruleOfObject(value) : strictest(rules, false);
    },

    ruleOfText(text, given, isOfPath, key) {
      budget.spendText(text.length);
      const found: Found = { same: [], held: [] };
      values.find(fold(text), found, key);
      const { same, held } = found;
      if (same.length === 0) {
        for (const reading of readingsOf(text, (length) => budget.spendReading(length))) {
          const inside: Found = { same: [], held: [] };
          values.find(fold(reading), inside);
          held.push(...inside.same, ...inside.held);
        }
      }
      if (same.length > 0) {
        if (given === undefined) return strictest(same, false);
        return isOfPath || same.includes(given) ? given : strictest([...same, given], false);
      }
      if (held.length === 0 || (isOfPath && given?.strategy !== 'MASK' && given !== undefined)) return given;
      return strictest(given === undefined ? held : [...held, given], true);
    },

    find(folded, found, key) {
      const same = texts.get(folded) ?? (typeof key === 'string' ? named.get(key)?.get(folded) : undefined);
      if (same !== undefined) found.same.push(...same);
      else {
        for (const [part, rules] of texts) {
          if (++compared % comparisonsBetweenLooks === 0) budget.look();
          if (holds(folded, part)) found.held.push(...rules);
        }
        const squeezed = letters.size === 0 ? '' : squeeze(folded);
        if (squeezed.length >= shortest.squeezed) {
          for (const [part, rules] of letters) {
            if (++compared % comparisonsBetweenLooks === 0) budget.look();
            if (squeezed.includes(part)) found.held.push(...rules);
          }
        }
        if (mayHoldEncoded(folded)) {
          for (const [part, rules] of encodedTexts()) {
            if (++compared % comparisonsBetweenLooks === 0) budget.look();
            if (folded.includes(part)) found.held.push(...rules);
          }
        }
        found.held.push(...unknown);
      }
      outer?.find(folded, found, key);
    },
  };
  return values;
}

function add<Key>(rules: Map<Key, FieldRule[]>, key: Key, rule: FieldRule): void {
  const known = rules.get(key);
  if (known === undefined) rules.set(key, [rule]);
  else if (!known.includes(rule)) known.push(rule);
}

function holds(text: string, part: string): boolean {
  if (part.length >= shortest.part) return text.length > part.length && text.includes(part);
  return part.length >= shortest.word && /[\p{L}\p{N}]/u.test(part) && holdsWord(text, part);
}

/** Of a number or text that is a time, its milliseconds; else NaN. */
function timeOf(value: unknown): number {
  if (typeof value === 'number') return value > 1e11 && value < 1e13 ? value : Number.NaN;
  return typeof value === 'string' && isTime.test(value) ? Date.parse(value) : Number.NaN;
}
const isTime = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?)?$/;

/** It has one of its own, if a short one. */
function hasText(value: unknown): boolean {
  if (typeof value === 'bigint') return !isTooBig(value);
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}

function isLongNumber(value: unknown): boolean {
  if (typeof value === 'bigint') return !isTooBig(value) && String(value).length >= shortest.number;
  return typeof value === 'number' && String(value).length >= shortest.number;
}
