/**
 * Standard Base64 with padding and nothing else; `undefined` for any other text. Node's own decoder skips what it does not
 * know, so that a mistyped key or a changed ciphertext would still give bytes.
 */
export function decodeStrictBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}
