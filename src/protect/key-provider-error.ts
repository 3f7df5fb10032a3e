import { type ErrorCode, SvcError } from '../errors.ts';

export function keyProviderError(code: ErrorCode, message: string): SvcError {
  return new SvcError(code, message, { name: 'KeyProviderException' });
}

/** What a provider threw, as the port promises it: an error from elsewhere is not passed on, as its text may hold anything. */
export function toProviderError(error: unknown, provider: string): SvcError {
  if (error instanceof SvcError) return error;
  return keyProviderError('SVC_PROTECT_KEY_UNAVAILABLE', `the key provider ${provider} failed unexpectedly`);
}
