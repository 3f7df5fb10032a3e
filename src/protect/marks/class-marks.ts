import { SvcError } from '../../ground/errors.ts';
import { shared } from '../../ground/lifecycle.ts';
import { optionsProblem } from '../../ground/names.ts';
import {
  type FieldRule,
  type PiiLevel,
  type PiiStrategy,
  type PiiType,
  piiLevels,
  piiStrategies,
  piiTypes,
  typeOfName,
} from '../../ground/pii-rule.ts';

/** The marked fields of a class, its base classes included. */
export type ClassMarks = ReadonlyMap<string, FieldRule>;

interface Marks {
  /** Prototype -> the fields that its own class marks. */
  readonly own: WeakMap<object, Map<string, FieldRule>>;
  /** Results of `marksOf`; reset with each new mark. */
  found: WeakMap<object, ClassMarks | null>;
  /** Whether any class has marks; if not, the walk skips them. */
  any: boolean;
  readonly rules: FieldRule[];
  /** Of marks on private fields, which only their class can read. */
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

/** Where TC39 decorators keep marks: an own property of the metadata of each class, shared by all copies of this package. */
const marksKey: unique symbol = Symbol.for('svc.pii-fields') as never;

/** Compilers give decorators no metadata if this symbol is missing, as it is up to Node 26. */
const metadataKey: symbol = metadataSymbol();

function metadataSymbol(): symbol {
  const symbols = Symbol as { metadata?: symbol };
  const key = symbols.metadata ?? Symbol.for('Symbol.metadata');
  // Not an assignment: that throws under --frozen-intrinsics.
  if (symbols.metadata === undefined) Reflect.set(Symbol, 'metadata', key);
  return key;
}

export function hasMarks(): boolean {
  return marks.any;
}

/** Records that a class has marks, and tells the watcher, as the rule may need a key. */
function noteMark(rule: FieldRule): void {
  marks.any = true;
  marks.found = new WeakMap();
  if (marks.rules.length < 1000) marks.rules.push(rule);
  marks.onRule?.(rule);
}

/** Reports the rule of every mark, past and future. `undefined` ends it. */
export function watchMarks(onRule: ((rule: FieldRule) => void) | undefined): void {
  marks.onRule = onRule;
  if (onRule !== undefined) for (const rule of marks.rules) onRule(rule);
}

function markPrototype(prototype: object, field: string, rule: FieldRule): void {
  const own = marks.own.get(prototype);
  if (own?.get(field) === rule) return;
  if (own === undefined) marks.own.set(prototype, new Map([[field, rule]]));
  else own.set(field, rule);
  noteMark(rule);
}

/** For a mark on a private field: `read` reads it from an instance. */
function noteReader(rule: FieldRule, read: (object: object) => unknown): void {
  marks.readers.set(rule, read);
}

/** The value of a marked field, private fields included. */
export function readMarked(object: object, field: string, rule: FieldRule): unknown {
  const read = marks.readers.get(rule);
  return read === undefined ? (object as Record<string, unknown>)[field] : read(object);
}

export function isMarkedField(object: unknown, field: string): boolean {
  if (typeof object !== 'object' || object === null) return false;
  return marksOf(Object.getPrototypeOf(object) as object | null)?.has(field) === true;
}

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
      // The mark of a subclass overrides.
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

export interface PiiFieldOptions {
  /** Default: derived from the name of the field (`workEmail` is EMAIL), else CUSTOM. */
  readonly type?: PiiType;
  /** Default: MASK. */
  readonly strategy?: PiiStrategy;
  /** For MASK: how much is hidden. Default: NORMAL. */
  readonly level?: PiiLevel;
  /** For ENCRYPT: the key. Default: the default key. */
  readonly keyId?: string;
  /** For MASK: a masker from `registerMasker`, instead of the masker of `type`. */
  readonly masker?: string;
}

/** Works with TC39 decorators and with TypeScript's legacy ones (`experimentalDecorators`). */
export interface PiiFieldDecorator {
  <This, V>(value: undefined, context: ClassFieldDecoratorContext<This, V>): void;
  <This, V>(
    value: ClassAccessorDecoratorTarget<This, V>,
    context: ClassAccessorDecoratorContext<This, V>,
  ): void;
  <This, V>(value: (this: This) => V, context: ClassGetterDecoratorContext<This, V>): void;
  (target: object, key: string | symbol, descriptor?: PropertyDescriptor): void;
}

/**
 * Marks a field of a class as personal data. In the payload of an event the field is masked, encrypted, hashed or left out,
 * wherever the instance stands. The instance itself does not change. Subclasses inherit the mark.
 * @throws SvcError `SVC_PROTECT_RULE` for invalid options, and if the decorated element is not a field
 * @example `@PiiField({ type: 'EMAIL', strategy: 'ENCRYPT' }) email = '';`
 */
export function PiiField(options: PiiFieldOptions | PiiType = {}): PiiFieldDecorator {
  const given = typeof options === 'string' ? { type: options } : options;
  return ((target: unknown, context: unknown) => {
    if (typeof context === 'object' && context !== null && 'kind' in context)
      markStandard(given, context as DecoratorContext);
    else markLegacy(given, target, context);
  }) as PiiFieldDecorator;
}

function markStandard(options: PiiFieldOptions, context: DecoratorContext): void {
  if (context.kind === 'class' || context.kind === 'method' || context.kind === 'setter' || context.static)
    throw misplaced();
  // A private field reaches the payload through toJSON: under its bare name, or recognized by its value.
  const field = String(context.name).replace(/^#/, '');
  const rule = ruleOf(field, options);
  const { access } = context as { access?: { get?(object: object): unknown } };
  if (context.private && typeof access?.get === 'function')
    noteReader(rule, (object) => access.get?.(object));
  const metadata = context.metadata as Record<symbol, Map<string, FieldRule>> | undefined;
  if (metadata === undefined) {
    tellByInstances(context, field, rule);
    return;
  }
  if (!Object.hasOwn(metadata, marksKey)) metadata[marksKey] = new Map();
  metadata[marksKey]?.set(field, rule);
  noteMark(rule);
}

/** For compilers without decorator metadata: the first instance of each class reports the mark, base classes first. */
function tellByInstances(
  context: Exclude<DecoratorContext, ClassDecoratorContext>,
  field: string,
  rule: FieldRule,
): void {
  const told = new WeakSet<object>();
  context.addInitializer(function (this: unknown) {
    const prototype = Object.getPrototypeOf(this) as object;
    if (told.has(prototype)) return;
    told.add(prototype);
    markPrototype(prototype, field, rule);
  });
}

function markLegacy(options: PiiFieldOptions, target: unknown, key: unknown): void {
  // For a constructor parameter only the position is known, for a static member only the class.
  if (typeof key !== 'string' || typeof target !== 'object' || target === null) throw misplaced();
  markPrototype(target, key, ruleOf(key, options));
}

const names: readonly (keyof PiiFieldOptions)[] = ['type', 'strategy', 'level', 'keyId', 'masker'];

function ruleOf(field: string, options: PiiFieldOptions): FieldRule {
  const problem = optionsProblem(options, names);
  if (problem !== undefined) throw new SvcError('SVC_PROTECT_RULE', `PiiField: ${problem}`);
  const { type = typeOfName(field), strategy = 'MASK', level = 'NORMAL', keyId, masker } = options;
  const known: readonly (readonly [string, unknown, readonly string[]])[] = [
    ['type', type, piiTypes],
    ['strategy', strategy, piiStrategies],
    ['level', level, piiLevels],
  ];
  for (const [name, value, values] of known) {
    if (!values.includes(value as string))
      throw new SvcError('SVC_PROTECT_RULE', `PiiField: ${name} must be one of ${values.join(', ')}`);
  }
  for (const [name, value] of Object.entries({ keyId, masker }))
    if (value !== undefined && typeof value !== 'string')
      throw new SvcError('SVC_PROTECT_RULE', `PiiField: ${name} must be a string`);
  return { type, strategy, level, keyId, masker };
}

function misplaced(): SvcError {
  return new SvcError(
    'SVC_PROTECT_RULE',
    'PiiField marks fields, accessors and getters of instances. For a constructor parameter, mark a field or write a path rule',
  );
}
