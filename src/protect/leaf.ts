import { SvcError } from '../ground/errors.ts';
import type { FieldRule } from '../ground/pii-rule.ts';
import { type Budget, textOfBigInt } from './budget.ts';
import type { ClearText, ClearTexts } from './clear-texts.ts';
import { elementPath, memberPath } from './field-path.ts';
import type { Policy } from './marks/policy.ts';
import { mask } from './maskers/mask.ts';
import { NativeValue } from './native-value.ts';
import { refusal, trusted } from './refusal.ts';
import type { SealedField, Sealer } from './sealer.ts';
import type { Place } from './value-place.ts';

/** What the walk applies on its way. */
export interface WalkRules {
  readonly eventType: string;
  readonly policy: Policy;
  readonly sealer: Sealer;
  /** False: marks of classes have no effect. */
  readonly usesMarks: boolean;
  /** Bytes and BigInts that no rule means become a `NativeValue`. Default: their text. */
  readonly keepsTypes?: boolean | undefined;
  /** Where the walk leaves the ciphertexts and hashes that it makes. */
  readonly sealed: string[];
  /** Told of each unmarked string and number, with the path to it: a key of a `Map` that could be a name is `*` in it. */
  readonly onUnmarked?: ((value: string | number, keys: readonly Step[]) => void) | undefined;
  /** Told of a marked field that holds an object whose text cannot be read, so that all around it is protected. */
  readonly onUnreadable?: ((field: string) => void) | undefined;
  /** What goes out in clear beside the payload: no protected value may be seen in it. */
  readonly clearTexts?: readonly ClearText[] | undefined;
  /** Milliseconds of a clock that never steps. */
  readonly monotonic: () => number;
}

export interface Walk extends Omit<WalkRules, 'clearTexts' | 'monotonic'> {
  readonly budget: Budget;
  readonly clear: ClearTexts | undefined;
  /** Objects that were searched for marks and have none. */
  readonly withoutMarks: WeakSet<object>;
  /** The keys that lead to the value at hand; `element` for one of an array. */
  readonly keys: Step[];
  /** Which of `keys` are those of a `Map`; kept for `onUnmarked`. */
  readonly entries: boolean[];
  /** Of the element that is visited, or was last. */
  index: number;
  /** Nobody asks for unmarked values, and a `for … in` finds what an object owns only. */
  readonly isQuick: boolean;
}

/** In the place of a value that is left out. */
export const excluded: unique symbol = Symbol('excluded');
/** In the place of a key. No text, so that no key of a payload is taken for it. */
export const element: unique symbol = Symbol('element');
/** One step on the way to a value. */
export type Step = string | typeof element;

/** A value without parts: its text, protected, where a rule says so; what JSON makes nothing of stays for the caller. */
export function leaf(value: unknown, depth: number, walk: Walk, place: Place): unknown {
  const type = typeof value;
  if (value === null || type === 'undefined' || type === 'function' || type === 'symbol') return value;
  const rule =
    place.json === undefined
      ? place.rule
      : place.json.ruleOfText(
          textOf(value),
          place.rule,
          place.rule === place.state.rule,
          walk.keys[depth - 1],
        );
  if (rule === undefined) {
    if (walk.onUnmarked !== undefined && (type === 'string' || type === 'number'))
      walk.onUnmarked(value as string | number, shownKeys(walk, depth));
    if (type !== 'bigint') return value;
    const text = textOfBigInt(value as bigint);
    return walk.keepsTypes ? new NativeValue(text, 'bigint') : text;
  }
  const plain = textOf(value);
  if (type !== 'boolean') walk.clear?.check(plain);
  if (rule.strategy === 'EXCLUDE') return excluded;
  if (type === 'number' && !Number.isFinite(value)) return null;
  walk.budget.spendText(plain.length);
  return rule.strategy === 'MASK' ? mask(plain, rule) : sealedText(plain, rule, walk, depth);
}

function shownKeys({ keys, entries }: Walk, depth: number): Step[] {
  return keys.slice(0, depth).map((key, at) => (entries[at] && nameLike.test(String(key)) ? '*' : key));
}

/** Keys of another form may be personal data themselves, as in a Map by e-mail address. */
export const nameLike = /^[A-Za-z_$][\w$-]{0,63}$/;

/** The text of a value without parts. */
export function textOf(value: unknown): string {
  return typeof value === 'bigint' ? textOfBigInt(value) : String(value);
}

function sealedText(plain: string, { strategy, keyId }: FieldRule, walk: Walk, depth: number): string {
  const { budget, sealer, sealed } = walk;
  budget.spendSeal();
  if (strategy !== 'ENCRYPT' && strategy !== 'HASH')
    throw refusal('SVC_PROTECT_NOT_PROTECTED', 'a marked value has a strategy that cannot protect it');
  const field = strategy === 'ENCRYPT' ? new WalkedField(keyId, walk, depth) : undefined;
  const text = seal(plain, sealer, field);
  budget.spendResult(text.length);
  sealed.push(text);
  return text;
}

/** Only ciphertexts of format v1 are bound to the path, so it is put together on demand. */
class WalkedField implements SealedField {
  readonly keyId: string | undefined;
  readonly eventType: string;
  readonly #keys: readonly Step[];
  readonly #depth: number;

  constructor(keyId: string | undefined, { eventType, keys }: Walk, depth: number) {
    this.keyId = keyId;
    this.eventType = eventType;
    this.#keys = keys;
    this.#depth = depth;
  }

  get path(): string {
    return pathOf(this.#keys, this.#depth);
  }
}

function pathOf(keys: readonly Step[], depth: number): string {
  if (depth === 0) return 'value';
  let path = '';
  for (let index = 0; index < depth; index++) {
    const key = keys[index] as Step;
    path = key === element ? elementPath(path === '' ? 'value' : path) : memberPath(path, key);
  }
  return path;
}

/**
 * The text that a sealer makes of a marked value: encrypted where it is told the field, else hashed. Fails closed: throws where
 * there is none, or where it is the value itself.
 */
function seal(plain: string, sealer: Sealer, field: SealedField | undefined): string {
  let text: unknown;
  try {
    text = field === undefined ? sealer.hash(plain) : sealer.encrypt(plain, field);
  } catch (error) {
    if (error instanceof SvcError) throw trusted(error);
    text = undefined;
  }
  if (typeof text === 'string' && text !== plain) return text;
  throw refusal('SVC_PROTECT_NOT_PROTECTED', 'a marked value could not be encrypted or hashed');
}
