import type { KeyObject } from 'node:crypto';
import { SvcError } from '../../ground/errors.ts';
import type { SealedField } from '../sealer.ts';
import { encryptText } from './encrypt.ts';
import { isKeyId } from './key-id.ts';

/** `v0`: `ENC(<base64>)` as specified, which other languages read. `v1`: `ENC(v1:<key id>:<base64>)`, bound to its place. */
const cipherFormats = ['v0', 'v1'] as const;
export type CipherFormat = (typeof cipherFormats)[number];

/** A key that fields are encrypted with. */
export interface EncryptionKey {
  readonly id: string;
  readonly key: KeyObject;
  /** Of envelope encryption: what `toHead` makes of the encrypted data key. */
  readonly head?: Buffer | undefined;
}

/** A ciphertext taken apart, as far as that goes without keys. */
export interface CipherText {
  /** `undefined`: format v0. */
  readonly keyId: string | undefined;
  readonly bytes: Buffer;
}

const start = 'ENC(';
const lengthBytes = 2;
/** Readers in other languages take the length for a signed number. */
export const maxEncryptedKeyBytes = 32_767;

export function writeCipherText(
  { id, key, head }: EncryptionKey,
  plain: string,
  format: CipherFormat,
  place: SealedField,
): string {
  if (format === 'v0') return `${start}${encryptText(key, plain, head, undefined)})`;
  return `${start}v1:${id}:${encryptText(key, plain, head, contextOf(id, place.eventType, place.path))})`;
}

/** What a ciphertext of format v1 is bound to: it does not open under another key id, event type or path. */
export function contextOf(keyId: string, eventType: string, path: string): Buffer {
  return Buffer.from(`svc.pii/1\0${keyId}\0${eventType}\0${path}`);
}

/** Whether a text claims to be a ciphertext. */
export function isCipherText(text: string): boolean {
  return text.startsWith(start) && text.endsWith(')');
}

/** Whether a ciphertext is in a format that opens only where it was made for: v1. */
export function isBound(text: string): boolean {
  return text.startsWith(`${start}v1:`);
}

/** Throws `SVC_PROTECT_CIPHERTEXT`. A colon is not Base64, so the two formats cannot be mistaken for each other. */
export function parseCipherText(text: string): CipherText {
  const inner = isCipherText(text) ? text.slice(start.length, -1) : undefined;
  if (inner === undefined) throw damaged('it is not in the form ENC(…)');
  const parts = inner.split(':', 4);
  const [version, keyId, base64] = parts.length === 1 ? [undefined, undefined, inner] : parts;
  if (parts.length !== 1 && (parts.length !== 3 || version !== 'v1' || !isKeyId(keyId as string)))
    throw damaged('it is neither ENC(<base64>) nor ENC(v1:<key id>:<base64>)');
  const bytes = decodeStrictBase64(base64 as string);
  if (bytes === undefined) throw damaged('it is not valid Base64');
  return { keyId, bytes };
}

/** `length of the encrypted data key (2 bytes, big-endian) | encrypted data key`: what stands before the IV. */
export function toHead(encryptedKey: Uint8Array): Buffer {
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
}

/** Takes the envelope layout apart. Throws `SVC_PROTECT_CIPHERTEXT` where the lengths do not fit; reads nothing beyond the end. */
export function splitEnvelope(bytes: Buffer): { encryptedKey: Buffer; sealed: Buffer } {
  const length = bytes.length < lengthBytes ? 0 : bytes.readUInt16BE(0);
  const end = lengthBytes + length;
  if (length === 0 || length > maxEncryptedKeyBytes || end > bytes.length)
    throw damaged('the length of its data key does not fit');
  return { encryptedKey: bytes.subarray(lengthBytes, end), sealed: bytes.subarray(end) };
}

function damaged(why: string): SvcError {
  return new SvcError('SVC_PROTECT_CIPHERTEXT', `the ciphertext is damaged: ${why}`);
}

/**
 * Standard Base64 with padding and nothing else; `undefined` for any other text. Node's own decoder skips what it does not
 * know, so that a mistyped key or a changed ciphertext would still give bytes.
 */
function decodeStrictBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}
