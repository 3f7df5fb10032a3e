import { SvcError } from '../../ground/errors.ts';
import { keyIdPattern, keyIdProblem } from '../../ground/key-text.ts';

export function isKeyId(text: string): boolean {
  return keyIdPattern.test(text);
}

export function checkKeyId(keyId: string): string {
  if (isKeyId(keyId)) return keyId;
  throw new SvcError('SVC_PROTECT_KEY_ID', keyIdProblem);
}
