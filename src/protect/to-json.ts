import type { FieldRule } from '../field-rule.ts';
import { type ClassMarks, readMarked } from './class-marks.ts';

/**
 * The marks of a class whose `toJSON` decides what its JSON looks like: they go for keys of the same name anywhere in it, and for
 * the marked values themselves under whatever name.
 */
export interface MarkedValues {
  readonly marks: ClassMarks;
  /** The rule of the marked field whose value this text is, or holds. */
  ruleOfValue(text: string): FieldRule | undefined;
}

/** Parts of a text are only looked for where the value is long enough to mean anything. */
const shortest = { number: 4, part: 5 };

/** Reads the marked fields of the object once. `outer`: of an object that this one stands in. */
export function markedValuesOf(
  object: object,
  marks: ClassMarks,
  outer: MarkedValues | undefined,
): MarkedValues {
  const values = new Map<string, FieldRule>();
  for (const [field, rule] of marks) {
    const value = read(object, field, rule);
    if (typeof value === 'string' ? value !== '' : isLongNumber(value)) values.set(String(value), rule);
  }
  return {
    marks: outer === undefined ? marks : new Map([...outer.marks, ...marks]),
    ruleOfValue(text) {
      const exact = values.get(text);
      if (exact !== undefined) return exact;
      for (const [value, rule] of values) {
        if (value.length >= shortest.part && text.length > value.length && text.includes(value)) return rule;
      }
      return outer?.ruleOfValue(text);
    },
  };
}

function isLongNumber(value: unknown): boolean {
  return (typeof value === 'number' || typeof value === 'bigint') && String(value).length >= shortest.number;
}

/** A getter that throws hides nothing: what `toJSON` makes of it, it made without. */
function read(object: object, field: string, rule: FieldRule): unknown {
  try {
    return readMarked(object, field, rule);
  } catch {
    return undefined;
  }
}
