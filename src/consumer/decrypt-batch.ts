import { SvcError } from '../ground/errors.ts';
import {
  type CloudEvent,
  cloudEventIn,
  type DecryptFailure,
  type DecryptOptions,
  isCloudEvent,
  isObject,
  notAnEnvelope,
  type TextHeaders,
  tryDecryptFields,
  withPath,
} from './decrypt-fields.ts';
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

/** An envelope, and how to put another one into its place. */
interface FoundEnvelope {
  readonly envelope: object;
  readonly withEnvelope: (envelope: object) => object;
}

/**
 * The envelope in a parsed document: the document itself, or the `value` of a record as the file broker writes it, parsed or
 * as text. A CloudEvent is one as well, of binary mode with the `headers` of its record.
 * Throws `SVC_CONSUMER_NOT_AN_ENVELOPE`.
 */
export function findEnvelope(document: unknown): FoundEnvelope {
  if (isEnvelope(document)) return { envelope: document, withEnvelope: (envelope) => envelope };
  const record = isObject(document) ? (document as FoundRecord) : {};
  const value = parsedOfFindEnvelope(record.value);
  if (isEnvelope(value))
    return { envelope: value, withEnvelope: (envelope) => ({ ...record, value: envelope }) };
  const event = isObject(record.headers) ? cloudEventIn(value, record.headers) : undefined;
  if (event !== undefined)
    return {
      envelope: event,
      withEnvelope: (envelope) => ({ ...record, value: (envelope as CloudEvent).data }),
    };
  throw new SvcError(
    'SVC_CONSUMER_NOT_AN_ENVELOPE',
    'this is neither an envelope (eventId, eventType, payload) nor a record with one as its value',
  );
}

interface FoundRecord {
  readonly value?: unknown;
  readonly headers?: TextHeaders;
}

function isEnvelope(value: unknown): value is object {
  if (isCloudEvent(value)) return 'data' in value;
  return isObject(value) && 'eventId' in value && 'eventType' in value && 'payload' in value;
}

function parsedOfFindEnvelope(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}
