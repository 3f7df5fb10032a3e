// marks/: which rule applies to a value: marks of classes, paths of the configuration.

import { SvcError } from '../../ground/errors.ts';
import { shared } from '../../ground/lifecycle.ts';
import { optionsProblem } from '../../ground/names.ts';
import {
  type FieldRule,
  type PathRule,
  type PathStep,
  type PiiLevel,
  type PiiStrategy,
  type PiiType,
  parseRulePath,
  piiLevels,
  piiStrategies,
  piiTypes,
  typeOfName,
} from '../../ground/pii-rule.ts';

/** The compiled rules for the payloads of one event type. Class marks are separate: they belong to the object. */
export interface Policy {
  /** Of a payload that is an object. */
  readonly root: PathState;
  /** Of any other payload, which is published as `{ "value": … }`: rules for `value` apply to it too. */
  readonly valueRoot: PathState;
}

/**
 * Compiles rules in order of precedence: the first that matches a value applies. `onMet` is called when a payload first has
 * something at the path of a rule.
 */
export function compilePolicy(rules: readonly PathRule[], onMet?: (rule: PathRule) => void): Policy {
  const ofValue = rules.map((rule) => ({
    ...rule,
    path: rule.path.replace(/^(\$\.)?value(\.|(?=\[)|$)/, ''),
  }));
  const others = ofValue
    .map((_, index) => index)
    .filter((index) => ofValue[index]?.path !== rules[index]?.path);
  const met = (index: number): void => {
    const rule = rules[index < rules.length ? index : (others[index - rules.length] as number)];
    if (rule !== undefined) onMet?.(rule);
  };
  return {
    root: compilePaths(rules, met),
    valueRoot: compilePaths([...rules, ...others.map((index) => ofValue[index] as PathRule)], met),
  };
}

interface Compiled {
  readonly steps: readonly PathStep[];
  readonly rule: FieldRule;
}

type Position = readonly [rule: number, taken: number];

/**
 * One state machine for all rules, so that a step costs about the same for one rule and for a hundred. `onMet` gets the index
 * of a rule when something first stands at the end of its path.
 */
export function compilePaths(
  rules: readonly PathRule[],
  onMet: (index: number) => void = () => {},
): PathState {
  const compiled = rules.map(({ path, ...rule }) => ({ steps: stepsOf(path), rule }));
  return new Machine(compiled, onMet).stateOf(compiled.map((_, index) => [index, 0]));
}

function stepsOf(path: string): readonly PathStep[] {
  if (path === '') return [];
  const steps = parseRulePath(path);
  if (typeof steps === 'string') throw new TypeError(`the path of a rule ${steps}`);
  return steps;
}

class Machine {
  readonly #rules: readonly Compiled[];
  readonly #onMet: (index: number) => void;
  readonly #states = new Map<string, PathState>();

  constructor(rules: readonly Compiled[], onMet: (index: number) => void) {
    this.#rules = rules;
    this.#onMet = onMet;
  }

  stateOf(positions: readonly Position[]): PathState {
    const all = this.#withSkipped(positions);
    if (all.length === 0) return deadState;
    const id = all.map((position) => position.join('.')).join(' ');
    let state = this.#states.get(id);
    if (state === undefined) {
      state = new PathState(this, all);
      this.#states.set(id, state);
      for (const position of all) if (this.stepAt(position) === undefined) this.#onMet(position[0]);
    }
    return state;
  }

  stepAt([rule, taken]: Position): PathStep | undefined {
    return this.#rules[rule]?.steps[taken];
  }

  ruleOf(position: Position | undefined): FieldRule | undefined {
    return position && this.#rules[position[0]]?.rule;
  }

  /** After one more step: to a key, or (`undefined`) to any key or element that no rule names. */
  after(positions: readonly Position[], key: string | undefined): Position[] {
    return positions.flatMap((position): Position[] => {
      const step = this.stepAt(position);
      if (step === undefined) return [];
      if (step === '**') return [position];
      return step === '*' || step.key === key ? [[position[0], position[1] + 1]] : [];
    });
  }

  /** `**` also matches zero steps. Sorted by rule, without duplicates. */
  #withSkipped(positions: readonly Position[]): Position[] {
    const found = new Map<string, Position>();
    for (let [rule, taken] of positions) {
      found.set(`${rule}.${taken}`, [rule, taken]);
      while (this.stepAt([rule, taken]) === '**') {
        taken++;
        found.set(`${rule}.${taken}`, [rule, taken]);
      }
    }
    return [...found.values()].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  }
}

/**
 * The position of the walk in all path rules at once. States are created when first reached, and kept. A state also serves as
 * the place of a value without other properties, so that most steps allocate nothing.
 */
export class PathState {
  /** The first rule whose path ends here. */
  readonly rule: FieldRule | undefined;
  readonly state: PathState = this;
  readonly json: undefined = undefined;
  readonly #machine: Machine;
  readonly #positions: readonly Position[];
  readonly #named: readonly string[];
  readonly #behind: (PathState | undefined)[];
  #indexes: Map<string, number> | undefined;
  #other: PathState | undefined;
  #element: PathState | undefined;

  constructor(machine: Machine, positions: readonly Position[]) {
    this.rule = machine.ruleOf(positions.find((position) => machine.stepAt(position) === undefined));
    this.#machine = machine;
    this.#positions = positions;
    const keys = positions.flatMap((position) => keyOf(machine.stepAt(position)));
    this.#named = [...new Set(keys)].map(internalized);
    this.#behind = this.#named.map(() => undefined);
  }

  next(key: string): PathState {
    const index = this.#indexOf(key);
    if (index < 0) return this.other();
    this.#behind[index] ??= this.#machine.stateOf(this.#machine.after(this.#positions, key));
    return this.#behind[index] as PathState;
  }

  other(): PathState {
    this.#other ??= this.#machine.stateOf(this.#machine.after(this.#positions, undefined));
    return this.#other;
  }

  /** The state of array elements: a path matches with and without `[*]`. */
  element(): PathState {
    const positions = this.#positions;
    this.#element ??= this.#machine.stateOf([...positions, ...this.#machine.after(positions, undefined)]);
    return this.#element;
  }

  /** Comparing a few pointers is faster than a Map lookup. */
  #indexOf(key: string): number {
    const named = this.#named;
    if (named.length > 8) {
      this.#indexes ??= new Map(named.map((name, index) => [name, index]));
      return this.#indexes.get(key) ?? -1;
    }
    for (let index = 0; index < named.length; index++) if (named[index] === key) return index;
    return -1;
  }
}

function keyOf(step: PathStep | undefined): string[] {
  return typeof step === 'object' ? [step.key] : [];
}

/** The interned text: comparing it with a property name compares two pointers. */
function internalized(text: string): string {
  return Object.keys({ [text]: 0 })[0] ?? text;
}

/** No rule can match here or below. */
export const deadState: PathState = new PathState(new Machine([], () => {}), []);

interface Policies {
  policyOf(eventType: string): Policy;
  /** Adds rules for one event type, whichever target or call publishes it. They precede the general rules. */
  add(eventType: string, rules: readonly PathRule[], owner: string): void;
  /** Rules whose path has matched no payload, though events of their type were published. */
  unmet(): readonly UnmetRule[];
}

/** A rule that may be mistyped. A path may be absent from any single payload, so only the count tells. */
interface UnmetRule {
  readonly path: string;
  /** The target that configures it, or `svc.pii.fields`. */
  readonly owner: string;
  readonly events: number;
}

interface PoliciesOptions {
  /** `svc.pii.fields`, for all events. */
  readonly general: readonly PathRule[];
  /** Called once per rule that has matched nothing in `enoughEvents`. */
  readonly onUnmet?: (rule: UnmetRule) => void;
}

/** Events after which a path without a match is reported: of its event type, and of all types. */
const enoughEvents = { ofType: 1_000, ofAll: 10_000 };

interface Entry {
  policy: Policy;
  events: number;
  readonly own: readonly PathRule[];
}

/** The policy of each event type, compiled when its rules are known. */
export function createPolicies({ general, onUnmet }: PoliciesOptions): Policies {
  const met = new Set<PathRule>();
  const said = new Set<PathRule>();
  const owners = new Map<PathRule, string>();
  const compile = (rules: readonly PathRule[]) => compilePolicy(rules, (rule) => met.add(rule));
  const base: Entry = { policy: compile(general), events: 0, own: [] };
  const entries = new Map<string, Entry>();
  let total = 0;

  function unmetOf(rules: readonly PathRule[], events: number): UnmetRule[] {
    const left = events === 0 ? [] : rules.filter((rule) => !met.has(rule) && !said.has(rule));
    return left.map((rule) => ({ path: rule.path, owner: owners.get(rule) ?? 'svc.pii.fields', events }));
  }

  function tell(rules: readonly PathRule[], events: number): void {
    for (const rule of unmetOf(rules, events)) onUnmet?.(rule);
    for (const rule of rules) said.add(rule);
  }

  return {
    policyOf(eventType) {
      const entry = entries.size === 0 ? base : (entries.get(eventType) ?? base);
      if (++entry.events === enoughEvents.ofType) tell(entry.own, entry.events);
      if (++total === enoughEvents.ofAll) tell(general, total);
      return entry.policy;
    },

    add(eventType, rules, owner) {
      if (rules.length === 0) return;
      for (const rule of rules) owners.set(rule, owner);
      const before = entries.get(eventType);
      const own = [...(before?.own ?? []), ...rules];
      entries.set(eventType, { policy: compile([...own, ...general]), events: before?.events ?? 0, own });
    },

    unmet: () => [
      ...[...entries.values()].flatMap(({ own, events }) => unmetOf(own, events)),
      ...unmetOf(general, total),
    ],
  };
}

/** The marked fields of a class, its base classes included. */
export type ClassMarks = ReadonlyMap<string, FieldRule>;

interface Marks {
  /** Prototype -> the fields that its own class marks. */
  readonly own: WeakMap<object, Map<string, FieldRule>>;
  /** Results of `classMarks.of`; reset with each new mark. */
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

/** Records that a class has marks, and tells the watcher, as the rule may need a key. */
function noteMark(rule: FieldRule): void {
  marks.any = true;
  marks.found = new WeakMap();
  if (marks.rules.length < 1000) marks.rules.push(rule);
  marks.onRule?.(rule);
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

/** The marks of all classes, from any copy of this package. */
export const classMarks = {
  any(): boolean {
    return marks.any;
  },

  of(prototype: object | null): ClassMarks | null {
    if (prototype === null || prototype === Object.prototype) return null;
    let found = marks.found.get(prototype);
    if (found === undefined) {
      found = collect(prototype);
      marks.found.set(prototype, found);
    }
    return found;
  },

  isOn(object: unknown, field: string): boolean {
    if (typeof object !== 'object' || object === null) return false;
    return classMarks.of(Object.getPrototypeOf(object) as object | null)?.has(field) === true;
  },

  /** The value of a marked field, private fields included. */
  read(object: object, field: string, rule: FieldRule): unknown {
    const read = marks.readers.get(rule);
    return read === undefined ? (object as Record<string, unknown>)[field] : read(object);
  },

  /** Reports the rule of every mark, past and future. `undefined` ends it. */
  watch(onRule: ((rule: FieldRule) => void) | undefined): void {
    marks.onRule = onRule;
    if (onRule !== undefined) for (const rule of marks.rules) onRule(rule);
  },
};

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
