import { SvcError } from '../ground/errors.ts';

/** What a database has said, by its codes alone: libraries wrap the errors of drivers, each in its own way. */
export type DatabaseFault = 'repeated' | 'no-table' | 'passing' | undefined;

const repeated = new Set(['23505', '1062', 'ER_DUP_ENTRY', 'SQLITE_CONSTRAINT_PRIMARYKEY', '1555']);
const noTable = new Set([
  '42P01',
  '42703',
  '3F000',
  '1146',
  '1054',
  'ER_NO_SUCH_TABLE',
  'ER_BAD_FIELD_ERROR',
]);
/** SQLSTATE classes 08 (connection), 40 (rolled back: try again), 53 (no room), 57 (shut down); names of MySQL and of Node. */
const passing =
  /^(?:08...|40...|53...|57P..|55P03|ECONN.*|EPIPE|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|EHOSTUNREACH|ENETUNREACH|ER_LOCK_.*|ER_CON_COUNT_ERROR|ER_SERVER_SHUTDOWN|PROTOCOL_.*|POOL_CLOSED|SQLITE_BUSY.*|SQLITE_LOCKED.*|P1001|P1002|P1008|P1017|P2024|P2028|P2034|CONNECTION_.*|CONNECT_TIMEOUT)$/;
const passingNumbers = new Set(['1205', '1213', '1040', '1053']);
/** Where a driver gives no code: `pg` for a connection that is gone, `pg-pool` for one that it did not get in time. */
const passingText =
  /Connection terminated|timeout exceeded when trying to connect|Connection lost|server closed the connection|database is locked/;
const noTableText = /no such (?:table|column)/;

/** Where libraries keep the error of the driver. */
const inner = [
  'cause',
  'original',
  'parent',
  'driverError',
  'previous',
  'meta',
  'driverAdapterError',
] as const;

/** `undefined`: it is no word of a database that is known. */
export function databaseFault(error: unknown): DatabaseFault {
  return faultOf(error, 0);
}

function faultOf(error: unknown, depth: number): DatabaseFault {
  if (typeof error !== 'object' || error === null || depth > 5) return undefined;
  const said = error as Record<string, unknown>;
  if (said instanceof SvcError)
    return said.code === 'SVC_OUTBOX_UNREACHABLE' || said.code === 'SVC_OUTBOX_READ_ONLY'
      ? 'passing'
      : undefined;
  const codes = [said.code, said.errno, said.sqlState, said.errcode, said.originalCode]
    .filter((code) => typeof code === 'string' || typeof code === 'number')
    .map(String);
  const text = typeof said.message === 'string' ? said.message : '';
  if (codes.some((code) => repeated.has(code)) || said.kind === 'UniqueConstraintViolation')
    return 'repeated';
  if (codes.some((code) => noTable.has(code)) || said.kind === 'TableDoesNotExist' || noTableText.test(text))
    return 'no-table';
  if (codes.some((code) => passing.test(code) || passingNumbers.has(code)) || passingText.test(text))
    return 'passing';
  for (const name of inner) {
    const found = faultOf(said[name], depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** For people: what kind of error it was, and nothing of its text, which can hold values of an event. */
export function nameOf(error: unknown): string {
  if (error instanceof SvcError) return error.code;
  const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown };
  const type = typeof name === 'string' && /^[\w.$]{1,60}$/.test(name) ? name : typeof error;
  return typeof code === 'string' && /^\w{1,60}$/.test(code) ? `${type} (${code})` : type;
}
