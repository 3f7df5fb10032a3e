import { SvcError } from '../ground/errors.ts';

/** Sent directly, it would be out where its transaction is rolled back. */
export function noOutbox(): SvcError {
  return new SvcError(
    'SVC_PIPELINE_NO_OUTBOX',
    'a target with outbox was called in a process that has none: set svc.outbox.enabled: true, and svc.outbox.datasource.url',
  );
}

/** An error that is not svc's is not passed on: its message may hold a value of the payload. */
export function reasonOf(error: unknown): SvcError {
  if (error instanceof SvcError) return error;
  return new SvcError('SVC_PIPELINE_UNEXPECTED', 'an unexpected error stopped the event before it was sent');
}
