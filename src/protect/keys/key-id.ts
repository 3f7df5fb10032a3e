import { SvcError } from '../../ground/errors.ts';

const keyIdPattern = /^[A-Za-z0-9_-]{1,128}$/;

export function isKeyId(text: string): boolean {
  return keyIdPattern.test(text);
}

/** Key ids become parts of paths and of ciphertexts: nothing but letters, digits, `_` and `-`, 128 at most. */
export function checkKeyId(keyId: string): string {
  if (isKeyId(keyId)) return keyId;
  throw new SvcError(
    'SVC_PROTECT_KEY_ID',
    'Invalid key id: it must be 1 to 128 letters, digits, underscores and hyphens',
  );
}
