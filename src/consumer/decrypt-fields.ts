// consumer/: decrypts the events of `protect/` for their readers. Loads nothing of the running svc.

import {
  type CloudEvent,
  cloudEventIn,
  isCloudEvent,
  notAnEnvelope,
  toEnvelope,
} from '../envelope/envelope.ts';
import { parseBounded } from '../ground/bounds.ts';
import { SvcError } from '../ground/errors.ts';
import { readBoundedSync } from '../ground/files.ts';
import { optionsProblem } from '../ground/names.ts';
import {
  createKeyCache,
  type EventCalls,
  type KeyCache,
  type KeyCacheOptions,
} from '../protect/keys/key-cache.ts';
import { type KeyProvider, mostTelling } from '../protect/keys/key-provider.ts';
import {
  type ConfiguredKey,
  checkKeyId,
  cipherTexts,
  createKeyRing,
  notConfigured,
} from '../protect/keys/key-ring.ts';
import { compilePaths, deadState, type PathState } from '../protect/marks/policy.ts';
import { elementPath, memberPath, ownText } from '../protect/own-text.ts';

export interface DecryptionKeyOptions {
  /** Local keys of any status: the current one and its predecessors. */
  readonly keys?: readonly ConfiguredKey[] | undefined;
  /** The source of all other keys. */
  readonly provider?: KeyProvider | undefined;
  /** The only keys that are requested from the provider; required with a provider. */
  readonly keyIds?: readonly string[] | undefined;
  readonly cache?: KeyCacheOptions | undefined;
}

/** Where a ciphertext was found: format v1 opens nowhere else. */
export interface CipherPlace {
  readonly eventType: string;
  /** `customer.email`, `items[*].phone` */
  readonly path: string;
}

/** Opens ciphertexts. Create it once and use it for all envelopes, as it caches decrypted data keys. */
export interface DecryptionKeys {
  /**
   * The text in one `ENC(…)`. Rejects with an `SvcError` that holds nothing of it: `SVC_PROTECT_CIPHERTEXT` (damaged),
   * `SVC_PROTECT_KEY_UNKNOWN` (names an unknown key), `SVC_PROTECT_DECRYPT_FAILED` (no known key opens it here),
   * `SVC_PROTECT_KEY_UNAVAILABLE` (retry later), `SVC_PROTECT_KEY_REFUSED`.
   * @param event the same object for all ciphertexts of one event: it limits the requests to a key service per event
   */
  open(cipherText: string, place: CipherPlace, event?: EventCalls): Promise<string>;
  /** Ends background work and the provider. */
  close(): Promise<void>;
}

const cacheNames: readonly (keyof KeyCacheOptions)[] = [
  ...(['ttlMs', 'maxStaleMs', 'maxEntries', 'maxMessages', 'onFailure', 'onWorn'] as const),
];

/** @throws SvcError `SVC_CONSUMER_OPTIONS` */
function checkOptions(of: string, options: unknown, names: readonly string[]): void {
  const problem = optionsProblem(options, names);
  if (problem !== undefined) throw new SvcError('SVC_CONSUMER_OPTIONS', `${of}: ${problem}`);
}

/** Throws an `SvcError` for invalid keys (length, Base64, ids), and if there is no key. */
export function createDecryptionKeys(options: DecryptionKeyOptions): DecryptionKeys {
  checkOptions('createDecryptionKeys', options, ['keys', 'provider', 'keyIds', 'cache']);
  if (options.cache !== undefined) checkOptions('createDecryptionKeys: cache', options.cache, cacheNames);
  const { keys = [], provider, keyIds = [] } = options;
  if (keys.length === 0 && provider === undefined) throw notConfigured();
  if (provider !== undefined && keyIds.length === 0)
    throw new SvcError('SVC_PROTECT_KEY_LIST', `the key provider ${provider.name} needs the list keyIds`);
  const ring = createKeyRing(keys);
  const ids = provider === undefined ? [] : keyIds.map(checkKeyId);
  const cache = provider && createKeyCache(provider, options.cache);

  const opener: Opener = { ring, ids, provider, cache };

  return {
    async open(text, place, event) {
      const found = cipherTexts.parse(text, place);
      return found.keyId === undefined
        ? openWithAny(found, opener, event)
        : openV1(found.keyId, found, opener, event);
    },

    async close() {
      cache?.close();
      await provider?.close?.();
    },
  };
}

interface Opener {
  readonly ring: ReturnType<typeof createKeyRing>;
  /** The keys that may be requested from the provider. */
  readonly ids: readonly string[];
  readonly provider: KeyProvider | undefined;
  readonly cache: KeyCache | undefined;
}

type CipherText = ReturnType<typeof cipherTexts.parse>;

async function openV1(
  keyId: string,
  found: CipherText,
  opener: Opener,
  event: EventCalls | undefined,
): Promise<string> {
  const { ring, ids } = opener;
  const known = ring.find(keyId);
  if (known !== undefined) return found.open(known.key);
  if (ids.includes(keyId)) return openWithProvider(found, [keyId], opener, event);
  // The found id is not shown: any text may stand in a field that is not a ciphertext.
  const here = [...ring.all.map(({ id }) => id), ...ids].join(', ');
  throw new SvcError(
    'SVC_PROTECT_KEY_UNKNOWN',
    `the ciphertext needs a key that is not among these: ${here}`,
  );
}

/** Format v0 names no key, so each is tried. Only the integrity check tells which one fits. */
async function openWithAny(
  found: CipherText,
  opener: Opener,
  event: EventCalls | undefined,
): Promise<string> {
  const errors: SvcError[] = [];
  for (const { key } of opener.ring.all) {
    try {
      return found.open(key);
    } catch (error) {
      errors.push(error as SvcError);
    }
  }
  if (opener.provider !== undefined) {
    try {
      return await openWithProvider(found, opener.ids, opener, event);
    } catch (error) {
      errors.push(error as SvcError);
    }
  }
  throw mostTelling(errors);
}

async function openWithProvider(
  found: CipherText,
  keyIds: readonly string[],
  { provider, cache }: Opener,
  event: EventCalls | undefined,
): Promise<string> {
  if (provider === undefined || cache === undefined) throw notConfigured();
  if (!provider.supportsEnvelopeEncryption) return openWithStored(found, keyIds, cache);
  const { encryptedKey, open } = found.envelope();
  return open(await cache.dataKey(keyIds, encryptedKey, event));
}

async function openWithStored(
  found: CipherText,
  keyIds: readonly string[],
  cache: KeyCache,
): Promise<string> {
  const errors: SvcError[] = [];
  for (const keyId of keyIds) {
    try {
      return found.open((await cache.fetch(keyId)).key);
    } catch (error) {
      errors.push(error as SvcError);
    }
  }
  throw mostTelling(errors);
}

/**
 * Keys from a JSON file: `{ "keys": [{ "id": "2027-01", "key": "<Base64 of 32 bytes>" }] }`. Throws `SVC_CONSUMER_KEYS_FILE`
 * without any content, which JSON errors would quote.
 */
export function readKeysFile(path: string): readonly ConfiguredKey[] {
  let document: { keys?: unknown };
  try {
    document = JSON.parse(readBoundedSync(path).toString()) as { keys?: unknown };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    throw unusable(path, code === undefined ? 'it is not valid JSON' : `it cannot be read (${code})`);
  }
  const keys = document?.keys;
  if (!Array.isArray(keys) || keys.length === 0 || !keys.every(isKey))
    throw unusable(path, 'it must be { "keys": [{ "id": "…", "key": "<Base64>" }, …] }');
  return keys;
}

function isKey(value: unknown): value is ConfiguredKey {
  const { id, key, status } = (value ?? {}) as Record<string, unknown>;
  const isStatus = status === undefined || status === 'primary' || status === 'decrypt';
  return typeof id === 'string' && typeof key === 'string' && isStatus;
}

function unusable(path: string, why: string): SvcError {
  return new SvcError('SVC_CONSUMER_KEYS_FILE', `the keys file "${path}" cannot be used: ${why}`);
}

export interface DecryptOptions {
  /** The fields to decrypt; other texts stay as they are. Default: format v1 in all fields, v0 in none. */
  readonly only?: FieldChoice | undefined;
  /**
   * The fields in which format v0 may be opened. It is not bound to a field, so a copied ciphertext opens anywhere. Default:
   * the fields of `only`. `'anywhere'` disables the check: use it only if no other producer can write texts to the topic.
   */
  readonly v0?: FieldChoice | 'anywhere' | undefined;
}

/** A field that could not be decrypted. Names no value; keys that do not look like field names are left out of the path. */
export interface DecryptFailure {
  readonly path: string;
  readonly error: SvcError;
}

export interface DecryptResult<T> {
  /** A copy. Fields that could not be decrypted are unchanged. */
  readonly envelope: T;
  readonly decrypted: number;
  readonly failures: readonly DecryptFailure[];
}

/**
 * Decrypts each `ENC(…)` in the payload of a parsed envelope or a CloudEvent (one of the official SDK, for example), and
 * returns a copy. svc encrypts nothing outside the payload. Masked and hashed values stay as they are. Values come back as
 * text, as numbers and dates are encrypted in their text form. A text that the application itself wrote as `ENC(…)` comes back
 * as it was, so do not decrypt the result again.
 *
 * Rejects with the `SvcError` of the first field that cannot be decrypted, its path in front of the message. No further key is
 * requested then. `tryDecryptFields` returns the other fields.
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

/**
 * Like `decryptFields`, but returns the fields that could not be decrypted as a list. Rejects only if the value is not an
 * envelope.
 */
export async function tryDecryptFields<T>(
  envelope: T,
  keys: DecryptionKeys,
  options: DecryptOptions = {},
): Promise<DecryptResult<T>> {
  return decrypt(envelope, keys, options, Number.POSITIVE_INFINITY);
}

function withPath({ path, error: { code, message, name } }: DecryptFailure): SvcError {
  return new SvcError(code, `${path}: ${message}`, { name });
}

/** Ends at the first field that fails after `maxFailures`. */
async function decrypt<T>(
  envelope: T,
  keys: DecryptionKeys,
  options: DecryptOptions,
  maxFailures: number,
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
      if (failures.length === maxFailures) break;
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
    'format v0 does not bind a ciphertext to a field, so it could have been copied here. ' +
      'Name the fields to decrypt (only: […]; svc decrypt --field)',
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

/** The names that ciphertexts are bound to, and where the payload is: of an envelope, or of a CloudEvent. */
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

/** Deeper and larger than any payload that svc makes. */
const maxDepth = 80;
const maxNodes = 200_000;

interface CipherField {
  readonly cipherText: string;
  readonly path: string;
  /** For messages. Keys that do not look like names are left out: those of a map can be email addresses. */
  readonly shownPath: string;
  /** Format v0 outside the allowed fields. */
  readonly isOutOfPlace: boolean;
  readonly replace: (plain: string) => void;
}

interface CipherFields {
  /** A copy, with the application's own texts unmarked. */
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

/** Finds the ciphertexts of a payload. Throws `SVC_CONSUMER_NOT_AN_ENVELOPE` if it is too deep or too large. */
function findCipherFields(payload: unknown, only: Chosen, v0: Chosen): CipherFields {
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
    if (!cipherTexts.isOne(text)) return ownText.unmark(text);
    const { path, shownPath } = place;
    const isOutOfPlace = !cipherTexts.isBound(text) && !place.v0.has(path);
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

/** Defines `__proto__` as an own key, never as the prototype. */
function define(target: object, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/**
 * Fields of a payload, subfields included: paths as in rules (`customer.email`, `items[*].phone`, `**.iban`), or a function
 * that gets the path of one field.
 */
export type FieldChoice = readonly string[] | ((path: string) => boolean);

interface Chosen {
  member(key: string): Chosen;
  element(): Chosen;
  has(path: string): boolean;
}

/** Throws a `TypeError` for an invalid path. */
function chosenBy(choice: FieldChoice): Chosen {
  if (typeof choice === 'function') return same(choice);
  let chosen = compiled.get(choice);
  if (chosen === undefined) {
    chosen = at(compilePaths(choice.map((path) => ({ path, ...anyRule }))));
    compiled.set(choice, chosen);
  }
  return chosen;
}

/** A consumer passes the same list with every event. */
const compiled = new WeakMap<readonly string[], Chosen>();
/** Only the match of the path is used. */
const anyRule = { type: 'CUSTOM', strategy: 'ENCRYPT', level: 'NORMAL' } as const;

function same(has: (path: string) => boolean): Chosen {
  const chosen: Chosen = { member: () => chosen, element: () => chosen, has };
  return chosen;
}

const everyField: Chosen = same(() => true);
const noField: Chosen = same(() => false);

function at(state: PathState): Chosen {
  if (state.rule !== undefined) return everyField;
  if (state === deadState) return noField;
  return {
    member: (key) => at(state.next(key)),
    element: () => at(state.element()),
    has: () => false,
  };
}

export type BatchResult<T> =
  | { readonly ok: true; readonly envelope: T; readonly decrypted: number }
  | {
      readonly ok: false;
      /** The first failure, with the path in front of its message. */
      readonly error: SvcError;
      /** All failures. Empty if the value is not an envelope. */
      readonly failures: readonly DecryptFailure[];
      /** True: the same event may open later, as a key service was unavailable. False: set the event aside. */
      readonly isTemporary: boolean;
    };

/**
 * Decrypts events one by one, so that an invalid one does not affect the others. Returns one result per value, in the same
 * order. A value is a parsed envelope, or one as text or bytes, as it comes from the broker; `null` (a tombstone) passes. The
 * content of an event never makes it reject.
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
    // Not passed on: the message of a JSON error quotes the text.
  }
  if (typeof envelope === 'object' && envelope !== null) return envelope as T;
  throw notAnEnvelope('it is not the JSON of an object');
}

function isTemporaryError({ code }: SvcError): boolean {
  return code === 'SVC_PROTECT_KEY_UNAVAILABLE';
}

interface FoundEnvelope {
  readonly envelope: object;
  readonly withEnvelope: (envelope: object) => object;
}

/**
 * The envelope in a parsed document: the document itself, or the `value` of a record as the file broker writes it, parsed or as
 * text. Also finds a CloudEvent, in binary mode with the `headers` of its record. Throws `SVC_CONSUMER_NOT_AN_ENVELOPE`.
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
  readonly headers?: Readonly<Record<string, string | undefined>>;
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

/** A record as a Kafka client returns it, such as a message of `kafkajs`. */
export interface EventRecord {
  readonly value: Uint8Array | string | null;
  /** An object, or the `Map` of `@platformatic/kafka`. */
  readonly headers?: object | undefined;
  /** Milliseconds since the epoch; used for CloudEvents of other producers without a `time`. */
  readonly timestamp?: number | bigint | string | undefined;
}

/**
 * The envelope of a record: JSON as it is, and CloudEvents in both modes as the envelope that svc would have written. Decrypts
 * nothing. Throws an `SvcError` with code `SVC_CONSUMER_NOT_AN_ENVELOPE` that holds nothing of the value.
 */
export function readEnvelope<T = unknown>({ value, headers = {}, timestamp = Number.NaN }: EventRecord): T {
  return toEnvelope(parsedValue(value), textHeaders(headers), Number(timestamp)) as T;
}

function parsedValue(value: EventRecord['value']): unknown {
  const text = typeof value === 'string' ? value : Buffer.from(value ?? []).toString();
  const document = parseBounded(text);
  if (isObject(document)) return document;
  throw notAnEnvelope('its value is not the JSON of an object');
}

function textHeaders(headers: object): Record<string, string> {
  const entries: Iterable<[unknown, unknown]> = headers instanceof Map ? headers : Object.entries(headers);
  const texts: Record<string, string> = Object.create(null);
  for (const [name, value] of entries) {
    // Kafka allows repeated names; kafkajs then returns a list.
    const first = Array.isArray(value) ? value[0] : value;
    if (typeof first === 'string' || first instanceof Uint8Array) texts[textOf(name)] = textOf(first);
  }
  return texts;
}

const textOf = (value: unknown): string =>
  value instanceof Uint8Array ? Buffer.from(value).toString() : String(value);
