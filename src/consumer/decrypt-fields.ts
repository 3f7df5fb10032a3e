import { SvcError } from '../errors.ts';
import { isCipherText } from '../protect/cipher-text.ts';
import { elementPath, memberPath } from '../protect/field-path.ts';
import type { CipherPlace, DecryptionKeys } from './decryption-keys.ts';

/** Deeper and larger than any envelope that svc makes. */
const maxDepth = 80;
const maxNodes = 200_000;

export interface DecryptOptions {
  /**
   * Which fields to decrypt, by path: `customer.email`, `items[*].phone`. Default: every text in the form `ENC(…)`. Name them
   * where users can write into other fields of the same events: format v0 opens a ciphertext wherever it is copied to.
   */
  readonly only?: ((path: string) => boolean) | undefined;
}

/** A field that could not be decrypted. Names no value, and of the path only what looks like the name of a field. */
export interface DecryptFailure {
  readonly path: string;
  readonly error: SvcError;
}

export interface DecryptResult<T> {
  /** A copy, with the fields that could not be decrypted as they were. */
  readonly envelope: T;
  readonly decrypted: number;
  readonly failures: readonly DecryptFailure[];
}

/**
 * A copy of a parsed envelope with every `ENC(…)` in its payload and metadata decrypted. What is masked or hashed stays so.
 * Values come back as text, as numbers and dates are encrypted in their text form.
 *
 * Rejects with the `SvcError` of the first field that cannot be decrypted, its path in front of the message; then nothing is
 * returned. `tryDecryptFields` returns the rest.
 */
export async function decryptFields<T>(
  envelope: T,
  keys: DecryptionKeys,
  options: DecryptOptions = {},
): Promise<T> {
  const result = await tryDecryptFields(envelope, keys, options);
  const [first] = result.failures;
  if (first === undefined) return result.envelope;
  const { code, message, name } = first.error;
  throw new SvcError(code, `${first.path}: ${message}`, { name });
}

/** As `decryptFields`, with the fields that could not be decrypted in a list. Rejects only for what is no envelope at all. */
export async function tryDecryptFields<T>(
  envelope: T,
  keys: DecryptionKeys,
  { only }: DecryptOptions = {},
): Promise<DecryptResult<T>> {
  const fields: Field[] = [];
  const copy = copyOf(envelope, (field) => {
    if (only === undefined || only(field.path)) fields.push(field);
  });
  const eventType = eventTypeOf(envelope);
  const failures: DecryptFailure[] = [];
  for (const { cipherText, path, shownPath, replace } of fields) {
    try {
      replace(await keys.open(cipherText, { eventType, path } satisfies CipherPlace));
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      failures.push({ path: shownPath, error });
    }
  }
  return { envelope: copy as T, decrypted: fields.length - failures.length, failures };
}

interface Field {
  readonly cipherText: string;
  readonly path: string;
  readonly shownPath: string;
  readonly replace: (plain: string) => void;
}

function eventTypeOf(envelope: unknown): string {
  const { eventType } = (envelope ?? {}) as { eventType?: unknown };
  return typeof eventType === 'string' ? eventType : '';
}

function copyOf(envelope: unknown, found: (field: Field) => void): unknown {
  let nodes = 0;

  function visit(
    value: unknown,
    path: string,
    shownPath: string,
    depth: number,
    set: (v: string) => void,
  ): unknown {
    if (++nodes > maxNodes) throw notAnEnvelope(`it holds more than ${maxNodes} values`);
    if (typeof value === 'string' && isCipherText(value))
      found({ cipherText: value, path, shownPath, replace: set });
    if (typeof value !== 'object' || value === null) return value;
    if (depth > maxDepth) throw notAnEnvelope(`it is nested deeper than ${maxDepth} levels`);
    return Array.isArray(value)
      ? visitArray(value, path, shownPath, depth)
      : visitObject(value as Record<string, unknown>, path, shownPath, depth);
  }

  function visitArray(array: readonly unknown[], path: string, shownPath: string, depth: number): unknown[] {
    const copy: unknown[] = [];
    const [itemPath, shownItem] = [elementPath(path), elementPath(shownPath)];
    for (let index = 0; index < array.length; index++) {
      const set = (plain: string) => {
        copy[index] = plain;
      };
      copy[index] = visit(array[index], itemPath, shownItem, depth + 1, set);
    }
    return copy;
  }

  function visitObject(
    object: Record<string, unknown>,
    path: string,
    shownPath: string,
    depth: number,
  ): object {
    const copy: Record<string, unknown> = {};
    for (const key of Object.keys(object)) {
      // Paths count from the payload, as the rules of svc do.
      const isPayload = depth === 0 && key === 'payload';
      const memberAt = isPayload ? '' : memberPath(path, key);
      const shownAt = isPayload ? '' : isName(key) ? memberPath(shownPath, key) : `${shownPath}[?]`;
      const set = (plain: string) => define(copy, key, plain);
      set(visit(object[key], memberAt, shownAt, depth + 1, set) as string);
    }
    return copy;
  }

  return visit(envelope, '', '', 0, () => {});
}

/** Keys of a map can be e-mail addresses or account numbers. */
function isName(key: string): boolean {
  return /^[A-Za-z_$][\w$-]{0,63}$/.test(key);
}

/** `__proto__` as a key of its own, and never as the prototype. */
function define(target: object, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

function notAnEnvelope(why: string): SvcError {
  return new SvcError('SVC_CONSUMER_NOT_AN_ENVELOPE', `this is no envelope of svc: ${why}`);
}
