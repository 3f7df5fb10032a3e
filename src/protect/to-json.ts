import { isTooBig } from '../ground/bounds.ts';
import type { FieldRule } from '../ground/pii-rule.ts';
import type { Budget } from './budget.ts';
import { type ClearTexts, fold, holdsWord } from './clear-texts.ts';
import { type ClassMarks, readMarked } from './marks/class-marks.ts';
import { strictest } from './maskers/strictest.ts';
import { attempt, partsOf } from './parts-of.ts';

/**
 * The marks of a class whose `toJSON` decides what its JSON looks like: they go for keys of the same name anywhere in it, and for
 * the marked values themselves under whatever name.
 */
export interface MarkedValues {
  readonly marks: ClassMarks;
  /**
   * The rule for a text that `toJSON` returned, at whose place `given` holds. Where the text is a marked value it is that of its
   * field; where it holds one among other text, it shows nothing of it; where several meet, the strictest.
   *
   * @param isOfPath whether a path rule gives it for this very place: that decides, but shows no part of what a mark hides
   */
  ruleOfText(text: string, given: FieldRule | undefined, isOfPath: boolean): FieldRule | undefined;
  /** The rule of the marked field whose value this object is, or stands in. */
  ruleOfObject(object: object): FieldRule | undefined;
  /** Adds the rules of the marked values that a folded text is, or holds. */
  find(folded: string, found: Found): void;
}

interface Found {
  readonly same: FieldRule[];
  readonly held: FieldRule[];
}

/** Numbers of fewer digits stand anywhere by chance; shorter texts are looked for as words of their own, and single characters not. */
const shortest = { number: 4, part: 5, word: 2 };
/** As deep as a payload may be. */
const maxDepth = 64;
const comparisonsBetweenLooks = 1_024;

/** Reads the marked fields of the object once. `outer`: of an object that this one stands in. */
export function markedValuesOf(
  object: object,
  marks: ClassMarks,
  outer: MarkedValues | undefined,
  { budget, clear }: { readonly budget: Budget; readonly clear: ClearTexts | undefined },
): MarkedValues {
  const texts = new Map<string, FieldRule[]>();
  const objects = new Map<object, FieldRule[]>();
  let compared = 0;

  function take(value: unknown, rule: FieldRule, depth: number): void {
    if (typeof value === 'object' && value !== null) takeObject(value, rule, depth);
    else if (typeof value === 'string' || isLongNumber(value)) takeText(String(value), rule);
  }

  function takeText(text: string, rule: FieldRule): void {
    clear?.check(text);
    budget.spendText(text.length);
    const folded = fold(text);
    if (folded !== '') add(texts, folded, rule);
  }

  function takeObject(value: object, rule: FieldRule, depth: number): void {
    if (depth > maxDepth || objects.get(value)?.includes(rule)) return;
    add(objects, value, rule);
    for (const part of partsOf(value, budget)) take(part, rule, depth + 1);
  }

  budget.spend(marks.size);
  for (const [field, rule] of marks) {
    const value = attempt(() => readMarked(object, field, rule));
    take(value, rule, 0);
  }

  const values: MarkedValues = {
    marks: outer === undefined ? marks : new Map([...outer.marks, ...marks]),

    ruleOfObject(value) {
      const rules = objects.get(value);
      return rules === undefined ? outer?.ruleOfObject(value) : strictest(rules, false);
    },

    ruleOfText(text, given, isOfPath) {
      budget.spendText(text.length);
      const found: Found = { same: [], held: [] };
      values.find(fold(text), found);
      const { same, held } = found;
      if (same.length > 0) {
        if (given === undefined) return strictest(same, false);
        return isOfPath || same.includes(given) ? given : strictest([...same, given], false);
      }
      if (held.length === 0 || (isOfPath && given?.strategy !== 'MASK' && given !== undefined)) return given;
      return strictest(given === undefined ? held : [...held, given], true);
    },

    find(folded, found) {
      const same = texts.get(folded);
      if (same !== undefined) found.same.push(...same);
      else {
        for (const [part, rules] of texts) {
          if (++compared % comparisonsBetweenLooks === 0) budget.look();
          if (holds(folded, part)) found.held.push(...rules);
        }
      }
      outer?.find(folded, found);
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

function isLongNumber(value: unknown): boolean {
  if (typeof value === 'bigint') return !isTooBig(value) && String(value).length >= shortest.number;
  return typeof value === 'number' && String(value).length >= shortest.number;
}
