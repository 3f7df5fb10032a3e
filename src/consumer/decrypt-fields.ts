// consumer/: for readers of events: opens what `protect/` has encrypted. Loads nothing of the running svc.

import { SvcError } from '../ground/errors.ts';
import { type CipherField, findCipherFields, notAnEnvelope } from './cipher-fields.ts';
import { isCloudEvent } from './cloud-event.ts';
import { checkOptions, type DecryptionKeys, type EventCalls } from './decryption-keys.ts';
import { type Chosen, chosenBy, everyField, type FieldChoice, noField } from './field-choice.ts';

export interface DecryptOptions {
  /** Which fields to decrypt; any other text stays as it is. Default: format v1 wherever it stands, v0 nowhere. */
  readonly only?: FieldChoice | undefined;
  /**
   * Where format v0 may be opened: it does not say which field it was made for, and opens wherever somebody has copied it to.
   * Default: the fields of `only`. `'anywhere'` gives that up: only for topics in which nobody else can place a text.
   */
  readonly v0?: FieldChoice | 'anywhere' | undefined;
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
 * A parsed envelope, or a CloudEvent such as one of the official SDK, with the `ENC(…)` in a copy of its payload decrypted; nothing else of it is looked at, as svc encrypts
 * nowhere else. What is masked or hashed stays so. Values come back as text, as numbers and dates are encrypted in their text
 * form; what the application itself wrote in the form `ENC(…)` comes back as it was. So do this once: what comes out is no
 * longer svc's alone.
 *
 * Rejects with the `SvcError` of the first field that cannot be decrypted, its path in front of the message; then nothing is
 * returned, and nothing more is asked of a key service. `tryDecryptFields` returns the rest.
 */
export async function decryptFields<T>(
  envelope: T,
  keys: DecryptionKeys,
  options: DecryptOptions = {},
): Promise<T> {
  const result = await decrypt(envelope, keys, options, 1);
  const [first] = result.failures;
  if (first === undefined) return result.envelope;
  throw withPath(first);
}

/** As `decryptFields`, with the fields that could not be decrypted in a list. Rejects only for what is no envelope at all. */
export async function tryDecryptFields<T>(
  envelope: T,
  keys: DecryptionKeys,
  options: DecryptOptions = {},
): Promise<DecryptResult<T>> {
  return decrypt(envelope, keys, options, Number.POSITIVE_INFINITY);
}

/** The error of a field, as one of its event. */
export function withPath({ path, error: { code, message, name } }: DecryptFailure): SvcError {
  return new SvcError(code, `${path}: ${message}`, { name });
}

/** Ends at the first field that fails after `mostFailures`. */
async function decrypt<T>(
  envelope: T,
  keys: DecryptionKeys,
  options: DecryptOptions,
  mostFailures: number,
): Promise<DecryptResult<T>> {
  const [only, v0] = choicesOf(options);
  if (typeof envelope !== 'object' || envelope === null) return { envelope, decrypted: 0, failures: [] };
  const { payloadName, eventType } = namesIn(envelope);
  const found = findCipherFields((envelope as Record<string, unknown>)[payloadName], only, v0);
  const event: EventCalls = { failed: 0 };
  const failures: DecryptFailure[] = [];
  let decrypted = 0;
  for (const field of found.fields) {
    try {
      field.replace(await open(field, eventType, keys, event));
      decrypted++;
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      failures.push({ path: field.shownPath, error });
      if (failures.length === mostFailures) break;
    }
  }
  return { envelope: { ...envelope, [payloadName]: found.payload }, decrypted, failures };
}

function open(
  { cipherText, path, isOutOfPlace }: CipherField,
  eventType: string,
  keys: DecryptionKeys,
  event: EventCalls,
): Promise<string> {
  if (!isOutOfPlace) return keys.open(cipherText, { eventType, path }, event);
  throw new SvcError(
    'SVC_CONSUMER_FIELD_NOT_NAMED',
    'format v0 does not say which field a ciphertext was made for, so that it could be copied here: name the fields to ' +
      'decrypt (only: […]; svc decrypt --field)',
  );
}

const optionNames: readonly (keyof DecryptOptions)[] = ['only', 'v0'];

function choicesOf(options: DecryptOptions): [only: Chosen, v0: Chosen] {
  checkOptions('decryptFields', options, optionNames);
  const { only, v0 } = options;
  const chosen = only === undefined ? undefined : chosenBy(only);
  if (v0 === 'anywhere') return [chosen ?? everyField, everyField];
  return [chosen ?? everyField, v0 === undefined ? (chosen ?? noField) : chosenBy(v0)];
}

/** What ciphertexts are bound to, and where they are: of an envelope, or of a CloudEvent. */
function namesIn(envelope: object): {
  readonly payloadName: 'payload' | 'data';
  readonly eventType: string;
} {
  if (isCloudEvent(envelope) && Object.hasOwn(envelope, 'data'))
    return { payloadName: 'data', eventType: envelope.type };
  if (!Object.hasOwn(envelope, 'payload')) throw notAnEnvelope('it has no payload');
  const { eventType } = envelope as { eventType?: unknown };
  return { payloadName: 'payload', eventType: typeof eventType === 'string' ? eventType : '' };
}
