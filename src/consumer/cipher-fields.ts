import { SvcError } from '../ground/errors.ts';
import { elementPath, memberPath } from '../protect/field-path.ts';
import { isBound, isCipherText } from '../protect/keys/cipher-text.ts';
import { unmarkOwnText } from '../protect/own-text.ts';
import type { Chosen } from './field-choice.ts';

/** Deeper and larger than any payload that svc makes. */
const maxDepth = 80;
const maxNodes = 200_000;

/** A ciphertext in the copy of a payload. */
export interface CipherField {
  readonly cipherText: string;
  readonly path: string;
  /** For messages: keys that do not look like names are left out, as those of a map can be e-mail addresses. */
  readonly shownPath: string;
  /** Format v0, where nobody has said that it may be opened. */
  readonly isOutOfPlace: boolean;
  readonly replace: (plain: string) => void;
}

export interface CipherFields {
  /** A copy, with the own texts of the application as it gave them. */
  readonly payload: unknown;
  readonly fields: readonly CipherField[];
}

interface Place {
  readonly path: string;
  readonly shownPath: string;
  readonly depth: number;
  readonly only: Chosen;
  readonly v0: Chosen;
}

/** Finds the ciphertexts of a payload. Throws `SVC_CONSUMER_NOT_AN_ENVELOPE` for one that is too deep or too large. */
export function findCipherFields(payload: unknown, only: Chosen, v0: Chosen): CipherFields {
  const fields: CipherField[] = [];
  let copied: unknown;
  let nodes = 0;

  function visit(value: unknown, place: Place, replace: (plain: string) => void): unknown {
    if (++nodes > maxNodes) throw notAnEnvelope(`it holds more than ${maxNodes} values`);
    if (typeof value === 'string') return visitText(value, place, replace);
    if (typeof value !== 'object' || value === null) return value;
    if (place.depth > maxDepth) throw notAnEnvelope(`it is nested deeper than ${maxDepth} levels`);
    return Array.isArray(value) ? visitArray(value, place) : visitObject(value as Parsed, place);
  }

  function visitText(text: string, place: Place, replace: (plain: string) => void): string {
    if (!isCipherText(text)) return unmarkOwnText(text);
    const { path, shownPath } = place;
    const isOutOfPlace = !isBound(text) && !place.v0.has(path);
    if (place.only.has(path)) fields.push({ cipherText: text, path, shownPath, isOutOfPlace, replace });
    return text;
  }

  function visitArray(array: readonly unknown[], place: Place): unknown[] {
    const copy: unknown[] = [];
    const item: Place = {
      path: elementPath(place.path),
      shownPath: elementPath(place.shownPath),
      depth: place.depth + 1,
      only: place.only.element(),
      v0: place.v0.element(),
    };
    for (let index = 0; index < array.length; index++)
      copy[index] = visit(array[index], item, (plain) => {
        copy[index] = plain;
      });
    return copy;
  }

  function visitObject(object: Parsed, place: Place): object {
    const copy: Parsed = {};
    for (const key of Object.keys(object)) {
      const member: Place = {
        path: memberPath(place.path, key),
        shownPath: isName(key) ? memberPath(place.shownPath, key) : `${place.shownPath}[?]`,
        depth: place.depth + 1,
        only: place.only.member(key),
        v0: place.v0.member(key),
      };
      define(
        copy,
        key,
        visit(object[key], member, (plain) => define(copy, key, plain)),
      );
    }
    return copy;
  }

  const root: Place = { path: '', shownPath: '', depth: 1, only, v0 };
  copied = visit(payload, root, (plain) => {
    copied = plain;
  });
  return {
    get payload() {
      return copied;
    },
    fields,
  };
}

type Parsed = Record<string, unknown>;

function isName(key: string): boolean {
  return /^[A-Za-z_$][\w$-]{0,63}$/.test(key);
}

/** `__proto__` as a key of its own, and never as the prototype. */
function define(target: object, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

export function notAnEnvelope(why: string): SvcError {
  return new SvcError('SVC_CONSUMER_NOT_AN_ENVELOPE', `this is no envelope of svc: ${why}`);
}
