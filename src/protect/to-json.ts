import type { FieldRule } from '../field-rule.ts';
import { type ClassMarks, readMarked } from './class-marks.ts';
import { hasToJson } from './kind.ts';

/**
 * The marks of a class whose `toJSON` decides what its JSON looks like: they go for keys of the same name anywhere in it, and for
 * the marked values themselves under whatever name.
 */
export interface MarkedValues {
  readonly marks: ClassMarks;
  /** The rule of the marked field whose value this text is, or holds. */
  ruleOfValue(text: string): FieldRule | undefined;
  /** The rule of the marked field whose value this object is, or stands in. */
  ruleOfObject(object: object): FieldRule | undefined;
}

/** Parts of a text are only looked for where the value is long enough to mean anything. */
const shortest = { number: 4, part: 5 };
/** Of one instance: more values are only known as a whole, not as a part of a text. */
const mostParts = 1_000;
/** As deep as a payload may be, and as large. */
const most = { depth: 64, values: 100_000 };

/** Reads the marked fields of the object once. `outer`: of an object that this one stands in. */
export function markedValuesOf(
  object: object,
  marks: ClassMarks,
  outer: MarkedValues | undefined,
): MarkedValues {
  const texts = new Map<string, FieldRule>();
  const objects = new Map<object, FieldRule>();
  const parts: string[] = [];

  function take(value: unknown, rule: FieldRule, depth: number): void {
    if (typeof value === 'object' && value !== null) takeObject(value, rule, depth);
    else if (typeof value === 'string' ? value !== '' : isLongNumber(value)) {
      const text = String(value);
      if (!texts.has(text) && text.length >= shortest.part && parts.length < mostParts) parts.push(text);
      if (texts.size < most.values) texts.set(text, rule);
    }
  }

  function takeObject(value: object, rule: FieldRule, depth: number): void {
    if (objects.has(value) || objects.size >= most.values || depth > most.depth) return;
    objects.set(value, rule);
    for (const part of partsOf(value)) take(part, rule, depth + 1);
  }

  for (const [field, rule] of marks)
    take(
      attempt(() => readMarked(object, field, rule)),
      rule,
      0,
    );
  return {
    marks: outer === undefined ? marks : new Map([...outer.marks, ...marks]),
    ruleOfObject: (value) => objects.get(value) ?? outer?.ruleOfObject(value),
    ruleOfValue(text) {
      const exact = texts.get(text);
      if (exact !== undefined) return exact;
      for (const part of parts) if (text.length > part.length && text.includes(part)) return texts.get(part);
      return outer?.ruleOfValue(text);
    },
  };
}

function isLongNumber(value: unknown): boolean {
  return (typeof value === 'number' || typeof value === 'bigint') && String(value).length >= shortest.number;
}

/** What `toJSON` of the class may copy out of the value of a marked field. */
function partsOf(value: object): Iterable<unknown> {
  const parts = attempt(() => {
    if (value instanceof Map || value instanceof Set) return [...value.values()];
    if (value instanceof String || value instanceof Number) return [value.valueOf()];
    if (ArrayBuffer.isView(value)) return [];
    return [...Object.values(value), hasToJson(value) ? value.toJSON('') : undefined];
  });
  return parts ?? [];
}

/** A getter that throws hides nothing: what `toJSON` makes of it, it made without. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
