import { SvcError } from '../ground/errors.ts';

interface DatabaseError {
  /** SQLSTATE of PostgreSQL; of MySQL a name such as `ER_LOCK_DEADLOCK`. */
  readonly code?: unknown;
  readonly sqlState?: unknown;
}

/** Classes of SQLSTATE after which applications try again: serialization and deadlock, connection, shutdown of the server. */
const retriedByApplications = /^(?:40|08|57)/;

/**
 * What the application gets when the row of its event was not taken. Its own ways of trying again see the driver's error as it is;
 * any other may hold values of the row in its text.
 */
export function insertError(error: unknown): unknown {
  if (error instanceof SvcError) return error;
  const { code, sqlState } = (error ?? {}) as DatabaseError;
  const state = [sqlState, code].find((each) => typeof each === 'string' && /^[0-9A-Z]{5}$/.test(each));
  if (typeof state === 'string' && retriedByApplications.test(state)) return error;
  const shown = typeof code === 'string' && /^\w{1,40}$/.test(code) ? ` (${code})` : '';
  return new SvcError(
    'SVC_OUTBOX_INSERT',
    `the event could not be stored in the outbox${shown}: its transaction is rolled back; check the table of svc.outbox.table and the rights of the application's user on it`,
  );
}
