import type { FieldRule } from '../field-rule.ts';
import { elementPath, memberPath } from './field-path.ts';
import { mask } from './mask.ts';
import { markOwnText } from './own-text.ts';
import type { Place } from './place.ts';
import type { Policy } from './policy.ts';
import { refusal } from './refusal.ts';
import { seal } from './seal.ts';
import type { SealedField, Sealer } from './sealer.ts';

/** What the walk applies on its way. */
export interface WalkRules {
  readonly eventType: string;
  readonly policy: Policy;
  readonly sealer: Sealer;
  /** False: marks of classes have no effect. */
  readonly usesMarks: boolean;
  /** Told of each unmarked string and number, with the path to it. */
  readonly onUnmarked?: ((value: string | number, keys: readonly Step[]) => void) | undefined;
  /** The record key, which goes out in clear: no marked value may be equal to it. */
  readonly key?: string | undefined;
  /** Headers of the record: as the key. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface Walk extends WalkRules {
  nodes: number;
  /** The keys that lead to the value at hand; `element` for one of an array. */
  readonly keys: Step[];
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
  const rule = place.rule ?? place.json?.ruleOfValue(String(value));
  if (rule === undefined) {
    if (walk.onUnmarked !== undefined && (type === 'string' || type === 'number'))
      walk.onUnmarked(value as string | number, walk.keys.slice(0, depth));
    if (type === 'string') return markOwnText(value as string);
    return type === 'bigint' ? (value as bigint).toString() : value;
  }
  const plain = String(value);
  if (plain === walk.key) {
    throw refusal(
      'SVC_PROTECT_KEY_IN_CLEAR',
      'the record key is the value of a marked field, and would go out in clear: declare another key',
    );
  }
  if (walk.headers !== undefined && Object.values(walk.headers).includes(plain)) {
    throw refusal(
      'SVC_PROTECT_HEADER_IN_CLEAR',
      'a header is the value of a marked field, and would go out in clear: declare another one',
    );
  }
  if (rule.strategy === 'EXCLUDE') return excluded;
  if (type === 'number' && !Number.isFinite(value)) return null;
  if (rule.strategy === 'MASK') return markOwnText(mask(plain, rule));
  return rule.strategy === 'HASH' ? seal(plain, walk.sealer, undefined) : encrypt(plain, rule, walk, depth);
}

function encrypt(plain: string, { strategy, keyId }: FieldRule, walk: Walk, depth: number): string {
  if (strategy !== 'ENCRYPT')
    throw refusal('SVC_PROTECT_NOT_PROTECTED', 'a marked value has a strategy that cannot protect it');
  return seal(plain, walk.sealer, new WalkedField(keyId, walk, depth));
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
