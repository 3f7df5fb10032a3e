import { type ErrorCode, SvcError } from '../ground/errors.ts';

const own = new WeakSet<SvcError>();

/** A reason to refuse an event. Its message names no value, and no key of the payload. */
export function refusal(code: ErrorCode, message: string): SvcError {
  const error = new SvcError(code, message);
  own.add(error);
  return error;
}

/** Lets an error of the sealer pass: it is known to name no value. */
export function trusted(error: SvcError): SvcError {
  own.add(error);
  return error;
}

export function isRefusal(error: unknown): error is SvcError {
  return error instanceof SvcError && own.has(error);
}

/** What reading the payload threw, as an error that may be shown: an SvcError of the application's own making is none. */
export function asRefusal(error: unknown): SvcError {
  if (isRefusal(error)) return error;
  return refusal(
    'SVC_PROTECT_READ_ERROR',
    'a getter, toJSON or proxy of the payload threw while it was read',
  );
}
