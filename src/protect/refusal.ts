import { type ErrorCode, SvcError } from '../errors.ts';

const own = new WeakSet<SvcError>();

/** A reason to refuse an event. Its message names no value, and no key of the payload. */
export function refusal(code: ErrorCode, message: string): SvcError {
  const error = new SvcError(code, message);
  own.add(error);
  return error;
}

export function tooLarge(most: number): SvcError {
  return refusal('SVC_PROTECT_TOO_LARGE', `the payload holds more than ${most} values`);
}

/** Lets an error of the sealer pass: it is known to name no value. */
export function trusted(error: SvcError): SvcError {
  own.add(error);
  return error;
}

/** What reading the payload threw, as an error that may be shown: an SvcError of the application's own making is none. */
export function asRefusal(error: unknown): SvcError {
  if (error instanceof SvcError && own.has(error)) return error;
  return refusal(
    'SVC_PROTECT_READ_ERROR',
    'a getter, toJSON or proxy of the payload threw while it was read',
  );
}
