// marks/: which rule applies to a value: marks of classes, paths of the configuration.

import { type FieldRule, type PathRule, type PathStep, parseRulePath } from '../../ground/pii-rule.ts';

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

export interface Policies {
  policyOf(eventType: string): Policy;
  /** Adds rules for one event type, whichever target or call publishes it. They precede the general rules. */
  add(eventType: string, rules: readonly PathRule[], owner: string): void;
  /** Rules whose path has matched no payload, though events of their type were published. */
  unmet(): readonly UnmetRule[];
}

/** A rule that may be mistyped. A path may be absent from any single payload, so only the count tells. */
export interface UnmetRule {
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
export const enoughEvents = { ofType: 1_000, ofAll: 10_000 };

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
