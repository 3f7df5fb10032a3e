import { SvcError } from '../ground/errors.ts';
import { notAnEnvelope } from './cipher-fields.ts';
import { type DecryptFailure, type DecryptOptions, tryDecryptFields, withPath } from './decrypt-fields.ts';
import type { DecryptionKeys } from './decryption-keys.ts';

/** What became of one event of a batch. */
export type BatchResult<T> =
  | { readonly ok: true; readonly envelope: T; readonly decrypted: number }
  | {
      readonly ok: false;
      /** The first thing that is wrong with it, with the path in front of its message. */
      readonly error: SvcError;
      /** All of them. Empty for what is no envelope at all. */
      readonly failures: readonly DecryptFailure[];
      /** True: the same event may open later, as a key service was away. Otherwise set it aside. */
      readonly isTemporary: boolean;
    };

/**
 * Decrypts events one by one, so that a bad one costs no other: one result for each value, in the same order. A value is a
 * parsed envelope, or one as text or bytes, as it comes from the broker; `null` (a tombstone) passes. Nothing that stands in
 * an event makes it reject.
 */
export async function decryptBatch<T = unknown>(
  values: Iterable<T | string | Uint8Array>,
  keys: DecryptionKeys,
  options: DecryptOptions = {},
): Promise<BatchResult<T>[]> {
  const results: BatchResult<T>[] = [];
  for (const value of values) results.push(await decryptOne<T>(value, keys, options));
  return results;
}

async function decryptOne<T>(
  value: T | string | Uint8Array,
  keys: DecryptionKeys,
  options: DecryptOptions,
): Promise<BatchResult<T>> {
  try {
    const { envelope, decrypted, failures } = await tryDecryptFields(parsed<T>(value), keys, options);
    const [first] = failures;
    if (first === undefined) return { ok: true, envelope, decrypted };
    const isTemporary = failures.every(({ error }) => isTemporaryError(error));
    return { ok: false, error: withPath(first), failures, isTemporary };
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return { ok: false, error, failures: [], isTemporary: isTemporaryError(error) };
  }
}

function parsed<T>(value: T | string | Uint8Array): T {
  if (typeof value !== 'string' && !(value instanceof Uint8Array)) return value;
  let envelope: unknown;
  try {
    envelope = JSON.parse(typeof value === 'string' ? value : Buffer.from(value).toString());
  } catch {
    // The message of a JSON error quotes the text.
  }
  if (typeof envelope === 'object' && envelope !== null) return envelope as T;
  throw notAnEnvelope('it is not the JSON of an object');
}

function isTemporaryError({ code }: SvcError): boolean {
  return code === 'SVC_PROTECT_KEY_UNAVAILABLE';
}
