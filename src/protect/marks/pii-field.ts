import { SvcError } from '../../ground/errors.ts';
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
import { markPrototype, marksKey, noteMark, noteReader } from './class-marks.ts';

/** What a mark says; all of it has a default. */
export interface PiiFieldOptions {
  /** Default: what the name of the field suggests (`workEmail` is EMAIL), else CUSTOM. */
  readonly type?: PiiType;
  /** Default: MASK. */
  readonly strategy?: PiiStrategy;
  /** Of MASK: how much it hides. Default: NORMAL. */
  readonly level?: PiiLevel;
  /** Of ENCRYPT: which key. Default: the default key. */
  readonly keyId?: string;
  /** Of MASK: a masker that `registerMasker` knows, instead of the one of the type. */
  readonly masker?: string;
}

/** Fits where TC39 decorators and where TypeScript's legacy ones (`experimentalDecorators`) are compiled. */
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
 * Marks a field of a class as personal data. Wherever an instance stands in the payload of an event, the field is masked,
 * encrypted, hashed or left out there; the instance itself is not touched. Subclasses inherit the mark.
 *
 * @throws SvcError `SVC_PROTECT_RULE` for options that no rule can have, and for places that are no field
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
  // A private field reaches the payload through toJSON: under its bare name, or known by its value.
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

/** Compiled by something that knows no metadata: the first instance of each class then tells of it, base classes first. */
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
  // Of a constructor's parameter only the position is known, of a static member only the class.
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
      throw new SvcError('SVC_PROTECT_RULE', `PiiField: ${name} must be a text`);
  return { type, strategy, level, keyId, masker };
}

function misplaced(): SvcError {
  return new SvcError(
    'SVC_PROTECT_RULE',
    'PiiField marks fields, accessors and getters of instances; for a parameter of a constructor, mark a field or write a path rule',
  );
}
