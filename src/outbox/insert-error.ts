import { SvcError } from '../ground/errors.ts';

interface DatabaseError {
  /** SQLSTATE of PostgreSQL; of MySQL a name such as `ER_LOCK_DEADLOCK`; of a socket `ECONNRESET`. */
  readonly code?: unknown;
  readonly errno?: unknown;
  readonly sqlState?: unknown;
  readonly message?: unknown;
}

/** Classes of SQLSTATE after which applications try again: serialization and deadlock, connection, shutdown of the server. */
const retriedByApplications = /^(?:40|08|57)/;

/** A connection that is gone, in the words of the drivers: none of them holds a value. */
const isLost = ({ code, message }: DatabaseError): boolean =>
  (typeof code === 'string' && /^(?:E[A-Z]+|PROTOCOL_[A-Z_]+)$/.test(code)) ||
  (typeof message === 'string' && /^Connection terminated( unexpectedly)?$/.test(message));

/**
 * What the application gets when the row of its event was not taken. Its own ways of trying again see the driver's error as it is;
 * any other may hold values of the row in its text.
 */
export function insertError(error: unknown): unknown {
  if (error instanceof SvcError) return error;
  const found = (error ?? {}) as DatabaseError;
  const { code, errno, sqlState } = found;
  if (isLost(found)) return error;
  const state = [sqlState, code].find((each) => typeof each === 'string' && /^[0-9A-Z]{5}$/.test(each));
  if (typeof state === 'string' && retriedByApplications.test(state)) return withoutParameters(found);
  if (code === 'ER_NET_PACKET_TOO_LARGE' || errno === 1153)
    return new SvcError(
      'SVC_OUTBOX_TOO_LONG',
      'the event is not stored: its row is larger than max_allowed_packet of the database: raise that setting of the server, or make the payload smaller',
    );
  const shown = typeof code === 'string' && /^\w{1,40}$/.test(code) ? ` (${code})` : '';
  return new SvcError(
    'SVC_OUTBOX_INSERT',
    `the event could not be stored in the outbox${shown}: its transaction is rolled back; check the table of svc.outbox.table and the rights of the application's user on it`,
  );
}

/** PostgreSQL says each parameter of the statement there, where `log_parameter_max_length_on_error` is set. */
function withoutParameters(error: DatabaseError): unknown {
  Reflect.deleteProperty(error, 'where');
  return error;
}
