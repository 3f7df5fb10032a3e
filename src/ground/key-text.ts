/** Key ids become parts of paths and of ciphertexts. */
export const keyIdPattern: RegExp = /^[A-Za-z0-9_-]{1,128}$/;
export const keyIdProblem = 'Invalid key id: it must be 1 to 128 letters, digits, underscores and hyphens';

export const keyLengthBytes = 32;

/** What a text gives as a key of AES-256, and how it was read. */
export interface KeyText {
  readonly bytes: Buffer;
  readonly spelling: 'Base64' | 'characters';
}

/**
 * The one way to read keys that are written as text: Base64 of 32 bytes, else 32 bytes of characters as they stand. A text of another
 * length is read as the one that it looks like, so that the message about it can say what was found.
 */
export function readKeyText(text: string): KeyText {
  const raw = Buffer.from(text);
  const decoded = Buffer.from(text, 'base64');
  // Node skips what is no Base64, so that a mistyped key would still give bytes.
  const isBase64 = decoded.toString('base64') === text;
  if (isBase64 && raw.length !== keyLengthBytes) return { bytes: decoded, spelling: 'Base64' };
  return { bytes: raw, spelling: 'characters' };
}
