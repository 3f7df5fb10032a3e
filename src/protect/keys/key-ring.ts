import type { KeyObject } from 'node:crypto';
import type { Config } from '../../config/config.ts';
import { nodeCrypto } from '../../ground/builtins.ts';
import { SvcError } from '../../ground/errors.ts';
import {
  defaultKeyId,
  keyIdPattern,
  keyIdProblem,
  keyLengthBytes,
  readKeyText,
} from '../../ground/event-fields.ts';
import type { SealedField } from '../sealer.ts';
import { keyProviderError, type StaticKeyProvider } from './key-provider.ts';

export interface ConfiguredKey {
  readonly id: string;
  /** 32 bytes, or their Base64. */
  readonly key: string | Uint8Array;
  /**
   * `primary`: encrypts the fields whose rule names no key. `decrypt`: decrypts old ciphertexts, and encrypts nothing. Default:
   * encrypts the fields whose rule names it. A single key is always primary.
   */
  readonly status?: 'primary' | 'decrypt' | undefined;
}

/** Keys by id. To rotate, add a new primary and keep the old key as `decrypt` while its ciphertexts exist. */
interface KeyRing {
  /** Primary first. */
  readonly all: readonly EncryptionKey[];
  /** Throws `SVC_PROTECT_NO_KEY` without a primary, `SVC_PROTECT_KEY_UNKNOWN` for an id that is not configured. */
  forEncryption(keyId: string | undefined): EncryptionKey;
  /** Like `forEncryption`, and counts one value. Throws `SVC_PROTECT_KEY_USED_UP` after 2^32 of them. */
  take(keyId: string | undefined): EncryptionKey;
  find(keyId: string): EncryptionKey | undefined;
}

interface RingKey extends EncryptionKey {
  readonly status: ConfiguredKey['status'];
  readonly counter: KeyCounter;
}

/** Throws for an invalid id, a duplicate id, two primaries, or a key that is not 32 bytes long. */
export function createKeyRing(configured: readonly ConfiguredKey[], use: KeyUseOptions = {}): KeyRing {
  const keys = new Map<string, RingKey>();
  for (const { id, key, status } of configured) {
    if (keys.has(checkKeyId(id))) throw badList(`the id "${id}" is in the list twice`);
    const alone = configured.length === 1 && status === undefined;
    const counter = new KeyCounter(id, use);
    keys.set(id, { id, key: toSecretKey(key), status: alone ? 'primary' : status, counter });
  }
  const primaries = [...keys.values()].filter(({ status }) => status === 'primary');
  if (primaries.length > 1) throw badList(`it has ${primaries.length} primary keys`);
  const [primary] = primaries;

  function forEncryption(keyId: string | undefined): RingKey {
    if (keyId === undefined) {
      if (primary === undefined) throw notConfigured();
      return primary;
    }
    const key = keys.get(keyId);
    if (key === undefined || key.status === 'decrypt')
      throw new SvcError(
        'SVC_PROTECT_KEY_UNKNOWN',
        key === undefined
          ? `no encryption key with the id "${checkKeyId(keyId)}" is configured`
          : `the key "${keyId}" is for decryption only`,
      );
    return key;
  }

  return {
    all: [...primaries, ...[...keys.values()].filter((key) => key !== primary)],
    find: (keyId) => keys.get(keyId),

    forEncryption(keyId) {
      const key = forEncryption(keyId);
      key.counter.check();
      return key;
    },

    take(keyId) {
      const key = forEncryption(keyId);
      key.counter.count();
      return key;
    },
  };
}

export function notConfigured(): SvcError {
  return new SvcError(
    'SVC_PROTECT_NO_KEY',
    'PII encryption key is not configured; set PII_ENCRYPTION_KEY to the Base64 of 32 random bytes',
  );
}

function badList(why: string): SvcError {
  return new SvcError('SVC_PROTECT_KEY_LIST', `the list of encryption keys cannot be used: ${why}`);
}

function isKeyId(text: string): boolean {
  return keyIdPattern.test(text);
}

export function checkKeyId(keyId: string): string {
  if (isKeyId(keyId)) return keyId;
  throw new SvcError('SVC_PROTECT_KEY_ID', keyIdProblem);
}

/**
 * The key of AES-256 as a key object, which Node uses several times faster than raw bytes. `readKeyText` reads a string. Throws
 * `SVC_PROTECT_KEY_LENGTH` (`IllegalArgumentException`) with the found length and no part of the key.
 */
export function toSecretKey(key: string | Uint8Array): KeyObject {
  const read = typeof key === 'string' ? readKeyText(key) : undefined;
  const bytes = read?.bytes ?? (key as Uint8Array);
  if (bytes.length !== keyLengthBytes)
    throw bad(`found ${bytes.length}${read === undefined ? '' : `, read as ${read.spelling}`}`);
  const object = nodeCrypto().createSecretKey(bytes);
  if (bytes !== key) bytes.fill(0);
  return object;
}

function bad(found: string): SvcError {
  return new SvcError(
    'SVC_PROTECT_KEY_LENGTH',
    `Encryption key must be exactly ${keyLengthBytes} bytes, written in Base64; ${found}`,
    { name: 'IllegalArgumentException' },
  );
}

/**
 * A key provider over local keys, in place of a key service: for tests and development. Throws for an invalid id, a duplicate
 * id, or a key that is not 32 bytes long.
 */
export function createStaticKeyProvider(keys: readonly Omit<ConfiguredKey, 'status'>[]): StaticKeyProvider {
  const ring = createKeyRing(keys.map(({ id, key }) => ({ id, key })));
  return {
    name: 'static',
    supportsEnvelopeEncryption: false,
    async getKey(keyId) {
      const found = ring.find(checkKeyId(keyId));
      if (found !== undefined) return found.key.export();
      throw keyProviderError('SVC_PROTECT_KEY_REFUSED', `no key with the id "${keyId}" was given`);
    },
  };
}

export interface EncryptionKey {
  readonly id: string;
  readonly key: KeyObject;
  /** With envelope encryption: `headOf` the encrypted data key. */
  readonly head?: Buffer | undefined;
}

/** A parsed ciphertext, not decrypted. Its errors hold no content. */
interface CipherText {
  /** `undefined`: format v0. */
  readonly keyId: string | undefined;
  /**
   * Throws `SVC_PROTECT_CIPHERTEXT` for an invalid layout, `SVC_PROTECT_DECRYPT_FAILED` for a wrong key, changed bytes or another
   * place.
   */
  open(key: KeyObject): string;
  /**
   * With envelope encryption: the encrypted data key, and what opens with it. Throws `SVC_PROTECT_CIPHERTEXT` if the lengths do not
   * fit.
   */
  envelope(): { readonly encryptedKey: Buffer; open(key: KeyObject): string };
}

const start = 'ENC(';
const lengthBytes = 2;
/** Readers in other languages parse the length as a signed number. */
const maxEncryptedKeyBytes = 32_767;

/**
 * How ciphertexts are written and read. `v0`: `ENC(<base64>)` as specified, readable by other languages. `v1`:
 * `ENC(v1:<key id>:<base64>)`, bound to its field.
 */
export const cipherTexts = {
  write({ id, key, head }: EncryptionKey, plain: string, format: 'v0' | 'v1', place: Place): string {
    if (format === 'v0') return `${start}${encryptText(key, plain, head, undefined)})`;
    return `${start}v1:${id}:${encryptText(key, plain, head, contextOf(id, place))})`;
  },

  /** `length of the encrypted data key (2 bytes, big-endian) | encrypted data key`, which precedes the IV. */
  headOf(encryptedKey: Uint8Array): Buffer {
    const { length } = encryptedKey;
    if (length === 0 || length > maxEncryptedKeyBytes)
      throw new SvcError(
        'SVC_PROTECT_KEY_REFUSED',
        `the encrypted data key is ${length} bytes; it must be 1 to ${maxEncryptedKeyBytes}`,
        { name: 'KeyProviderException' },
      );
    const head = Buffer.allocUnsafeSlow(lengthBytes + length);
    head.writeUInt16BE(length);
    head.set(encryptedKey, lengthBytes);
    return head;
  },

  /** Whether a text claims to be a ciphertext. */
  isOne(text: string): boolean {
    return text.startsWith(start) && text.endsWith(')');
  },

  /** Whether a ciphertext is bound to its field: format v1. */
  isBound(text: string): boolean {
    return text.startsWith(`${start}v1:`);
  },

  /** Throws `SVC_PROTECT_CIPHERTEXT`. Base64 has no colon, so the two formats cannot be confused. */
  parse(text: string, place: Place): CipherText {
    const inner = cipherTexts.isOne(text) ? text.slice(start.length, -1) : undefined;
    if (inner === undefined) throw damaged('it is not in the form ENC(…)');
    const parts = inner.split(':', 4);
    const [version, keyId, base64] = parts.length === 1 ? [undefined, undefined, inner] : parts;
    if (parts.length !== 1 && (parts.length !== 3 || version !== 'v1' || !isKeyId(keyId as string)))
      throw damaged('it is neither ENC(<base64>) nor ENC(v1:<key id>:<base64>)');
    const bytes = decodeStrictBase64(base64 as string);
    if (bytes === undefined) throw damaged('it is not valid Base64');
    const context = keyId === undefined ? undefined : contextOf(keyId, place);
    // Format v0 names no key, so each is tried. Bytes that no key opens are refused before.
    if (keyId === undefined) checkSealed(bytes);
    return {
      keyId,
      open: (key) => decryptText(key, bytes, context),
      envelope() {
        const { encryptedKey, sealed } = splitEnvelope(bytes);
        checkSealed(sealed);
        return { encryptedKey, open: (key) => decryptText(key, sealed, context) };
      },
    };
  },
};

/** The field of a ciphertext: `customer.email` of an event type. */
type Place = Pick<SealedField, 'eventType' | 'path'>;

/** The authenticated context of format v1: a ciphertext does not open under another key id, event type or path. */
function contextOf(keyId: string, { eventType, path }: Place): Buffer {
  return Buffer.from(`svc.pii/1\0${keyId}\0${eventType}\0${path}`);
}

function splitEnvelope(bytes: Buffer): { encryptedKey: Buffer; sealed: Buffer } {
  const length = bytes.length < lengthBytes ? 0 : bytes.readUInt16BE(0);
  const end = lengthBytes + length;
  if (length === 0 || length > maxEncryptedKeyBytes || end > bytes.length)
    throw damaged('the length of its data key is wrong');
  return { encryptedKey: bytes.subarray(lengthBytes, end), sealed: bytes.subarray(end) };
}

function damaged(why: string): SvcError {
  return new SvcError('SVC_PROTECT_CIPHERTEXT', `the ciphertext is damaged: ${why}`);
}

/**
 * Standard Base64 with padding; `undefined` for any other text. Node's decoder skips invalid characters, so a mistyped key or a
 * changed ciphertext would still give bytes.
 */
function decodeStrictBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

const algorithm = 'aes-256-gcm';
const tagBytes = 16;
/** By default Node accepts tags of 4 bytes, which can be forged. */
const options = { authTagLength: tagBytes };

/** Where most ciphertexts are assembled: allocating a buffer takes as long as the encryption. */
const scratch = Buffer.alloc(16_384);

/** Base64 of `iv | ciphertext | tag`, after an optional `head`. A lone surrogate becomes U+FFFD. */
function encryptText(
  key: KeyObject,
  plain: string,
  head: Buffer | undefined,
  context: Buffer | undefined,
): string {
  const iv = nextIv();
  const cipher = nodeCrypto().createCipheriv(algorithm, key, iv, options);
  if (context !== undefined) cipher.setAAD(context);
  const text = cipher.update(plain, 'utf8');
  cipher.final();
  const tag = cipher.getAuthTag();
  const start = head === undefined ? 0 : head.length;
  const end = start + ivBytes + text.length;
  const target = end + tagBytes <= scratch.length ? scratch : Buffer.allocUnsafe(end + tagBytes);
  if (head !== undefined) target.set(head);
  target.set(iv, start);
  target.set(text, start + ivBytes);
  target.set(tag, end);
  return target.toString('base64', 0, end + tagBytes);
}

/** The text of `iv | ciphertext | tag`. */
function decryptText(key: KeyObject, sealed: Buffer, context: Buffer | undefined): string {
  checkSealed(sealed);
  const end = sealed.length - tagBytes;
  const decipher = nodeCrypto().createDecipheriv(algorithm, key, sealed.subarray(0, ivBytes), options);
  if (context !== undefined) decipher.setAAD(context);
  decipher.setAuthTag(sealed.subarray(end));
  try {
    const text = decipher.update(sealed.subarray(ivBytes, end));
    decipher.final();
    return text.toString('utf8');
  } catch {
    throw new SvcError(
      'SVC_PROTECT_DECRYPT_FAILED',
      'the ciphertext does not pass its integrity check: wrong key, damaged, or moved from another field',
    );
  }
}

function checkSealed(sealed: Buffer): void {
  const { length } = sealed;
  if (length >= ivBytes + tagBytes) return;
  throw new SvcError(
    'SVC_PROTECT_CIPHERTEXT',
    length < ivBytes
      ? `Envelope decryption error: the IV is ${length} bytes, shorter than ${ivBytes}`
      : `Envelope decryption error: ${length} bytes are too short for IV and tag, which take ${ivBytes + tagBytes}`,
  );
}

const ivBytes = 12;
const slots = 1024;

let pool: Buffer | undefined;
let next = slots;
/** One for all values, so that none needs a view of the pool. */
const iv = Buffer.allocUnsafeSlow(ivBytes);

/**
 * 12 fresh random bytes, generated by the thousand, as one call per field costs 1.5 us. Valid until the next call only, so that
 * a slot cannot be reused.
 */
function nextIv(): Buffer {
  pool ??= Buffer.allocUnsafeSlow(slots * ivBytes);
  if (next === slots) {
    nodeCrypto().randomFillSync(pool);
    next = 0;
  }
  const start = next++ * ivBytes;
  for (let byte = 0; byte < ivBytes; byte++) iv[byte] = pool[start + byte] as number;
  return iv;
}

/** A key that has encrypted half of its maximum, or all. */
export interface KeyUse {
  readonly keyId: string;
  readonly messages: number;
  readonly isUsedUp: boolean;
}

interface KeyUseOptions {
  /** Default and maximum: 2^32. */
  readonly maxMessages?: number | undefined;
  /** Called once at half of it, and once when the key is refused. */
  readonly onWorn?: ((use: KeyUse) => void) | undefined;
}

/** Counts the values that one key encrypts in this process. */
export class KeyCounter {
  /**
   * Values that one key may encrypt. With random IVs of 96 bits, more of them make a repeated IV too likely (NIST SP 800-38D,
   * 8.3). A repeated IV exposes both values.
   */
  static readonly max: number = 2 ** 32;
  #messages = 0;
  /** Up to here `count` only counts. */
  #limit: number;
  #told: 'nothing' | 'half' | 'all' = 'nothing';
  readonly #keyId: string;
  readonly #max: number;
  readonly #onWorn: KeyUseOptions['onWorn'];

  constructor(keyId: string, { maxMessages = KeyCounter.max, onWorn }: KeyUseOptions) {
    this.#keyId = keyId;
    this.#max = Math.min(maxMessages, KeyCounter.max);
    this.#limit = Math.ceil(this.#max / 2);
    this.#onWorn = onWorn;
  }

  get isUsedUp(): boolean {
    return this.#messages >= this.#max;
  }

  /** Throws if `count` would throw. */
  check(): void {
    if (this.isUsedUp) throw usedUp(this.#keyId, this.#max);
  }

  /** Call it before each value. Throws `SVC_PROTECT_KEY_USED_UP` for the first one above the maximum. */
  count(messages = 1): void {
    const after = this.#messages + messages;
    if (after > this.#limit) this.#passLimit(after);
    this.#messages = after;
  }

  #passLimit(after: number): void {
    const isUsedUp = after > this.#max;
    const tell = isUsedUp ? 'all' : 'half';
    this.#limit = this.#max;
    if (tell !== this.#told) {
      this.#told = tell;
      this.#onWorn?.({ keyId: this.#keyId, messages: this.#messages, isUsedUp });
    }
    if (isUsedUp) throw usedUp(this.#keyId, this.#max);
  }
}

function usedUp(keyId: string, max: number): SvcError {
  return new SvcError(
    'SVC_PROTECT_KEY_USED_UP',
    `the encryption key "${keyId}" has encrypted ${max} values, the limit of one key. Make a new key the primary key`,
  );
}

/** The keys of `svc.pii.crypto`. */
export function configuredKeys({
  defaultKey,
  keys,
}: Config['pii']['crypto']): (ConfiguredKey & { readonly key: Buffer })[] {
  const others = keys.map(({ id, key, status }) => ({ id, key: readKeyText(key).bytes, status }));
  if (defaultKey === undefined) return others;
  const hasPrimary = keys.some(({ status }) => status === 'primary');
  const status = hasPrimary ? undefined : 'primary';
  return [{ id: defaultKeyId, key: readKeyText(defaultKey).bytes, status }, ...others];
}
