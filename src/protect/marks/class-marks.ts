import { shared } from '../../ground/lifecycle.ts';
import type { FieldRule } from '../../ground/pii-rule.ts';

/** The marked fields of a class, those of its base classes among them. */
export type ClassMarks = ReadonlyMap<string, FieldRule>;

interface Marks {
  /** Prototype -> the fields that its own class marks. */
  readonly own: WeakMap<object, Map<string, FieldRule>>;
  /** What `marksOf` has found; made anew with each mark that is added. */
  found: WeakMap<object, ClassMarks | null>;
  /** Whether any class has marks: without, the walk asks for none. */
  any: boolean;
  readonly rules: FieldRule[];
  /** Of marks on private fields, which nothing but their class can read. */
  readonly readers: WeakMap<FieldRule, (object: object) => unknown>;
  onRule: ((rule: FieldRule) => void) | undefined;
}

const marks = shared<Marks>('pii-marks', () => ({
  own: new WeakMap(),
  found: new WeakMap(),
  any: false,
  rules: [],
  readers: new WeakMap(),
  onRule: undefined,
}));

/** Where TC39 decorators keep marks: an own property of the metadata of each class. Known to every copy of this package. */
export const marksKey: unique symbol = Symbol.for('svc.pii-fields') as never;

/** Compilers give decorators no metadata where this symbol is missing, as it is up to Node 26. */
export const metadataKey: symbol = metadataSymbol();

function metadataSymbol(): symbol {
  const symbols = Symbol as { metadata?: symbol };
  const key = symbols.metadata ?? Symbol.for('Symbol.metadata');
  // No assignment: with --frozen-intrinsics that throws.
  if (symbols.metadata === undefined) Reflect.set(Symbol, 'metadata', key);
  return key;
}

export function hasMarks(): boolean {
  return marks.any;
}

/** A class has marks now; told to whoever listens, as its rule may need a key. */
export function noteMark(rule: FieldRule): void {
  marks.any = true;
  marks.found = new WeakMap();
  if (marks.rules.length < 1000) marks.rules.push(rule);
  marks.onRule?.(rule);
}

/** Tells of the rule of every mark so far, and to come. `undefined` ends it. */
export function watchMarks(onRule: ((rule: FieldRule) => void) | undefined): void {
  marks.onRule = onRule;
  if (onRule !== undefined) for (const rule of marks.rules) onRule(rule);
}

export function markPrototype(prototype: object, field: string, rule: FieldRule): void {
  const own = marks.own.get(prototype);
  if (own?.get(field) === rule) return;
  if (own === undefined) marks.own.set(prototype, new Map([[field, rule]]));
  else own.set(field, rule);
  noteMark(rule);
}

/** The field of this mark is private: `read` reads it of an instance. */
export function noteReader(rule: FieldRule, read: (object: object) => unknown): void {
  marks.readers.set(rule, read);
}

/** The value of a marked field, a private one included. */
export function readMarked(object: object, field: string, rule: FieldRule): unknown {
  const read = marks.readers.get(rule);
  return read === undefined ? (object as Record<string, unknown>)[field] : read(object);
}

/** Whether the class of an object marks this field. */
export function isMarkedField(object: unknown, field: string): boolean {
  if (typeof object !== 'object' || object === null) return false;
  return marksOf(Object.getPrototypeOf(object) as object | null)?.has(field) === true;
}

/** The marked fields of objects with this prototype. */
export function marksOf(prototype: object | null): ClassMarks | null {
  if (prototype === null || prototype === Object.prototype) return null;
  let found = marks.found.get(prototype);
  if (found === undefined) {
    found = collect(prototype);
    marks.found.set(prototype, found);
  }
  return found;
}

function collect(prototype: object): ClassMarks | null {
  const all = new Map<string, FieldRule>();
  for (let level: object | null = prototype; level !== null; level = Object.getPrototypeOf(level)) {
    for (const own of [marks.own.get(level), ofMetadata(level)]) {
      // A subclass that marks a field anew decides.
      for (const [field, rule] of own ?? []) if (!all.has(field)) all.set(field, rule);
    }
  }
  return all.size === 0 ? null : all;
}

function ofMetadata(prototype: object): ClassMarks | undefined {
  const owner = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value as unknown;
  if (typeof owner !== 'function') return undefined;
  const metadata = Object.getOwnPropertyDescriptor(owner, metadataKey)?.value as object | undefined;
  if (typeof metadata !== 'object' || metadata === null) return undefined;
  return Object.getOwnPropertyDescriptor(metadata, marksKey)?.value as ClassMarks | undefined;
}
