import { SvcError } from '../../ground/errors.ts';
import { type StoreFault, type StoreFaultDetails, storeError } from '../../outbox/store-error.ts';

interface MysqlError {
  /** Its symbol, or that of the system: `ER_NO_SUCH_TABLE`, `ECONNREFUSED`. */
  readonly code?: unknown;
  readonly errno?: unknown;
  /** Whether the connection has ended with it. */
  readonly fatal?: unknown;
}

/** By number: drivers and the two products differ in the symbols. */
const faults: Readonly<Record<number, StoreFault>> = {
  1044: 'notAllowed',
  1045: 'signIn',
  1130: 'signIn',
  1251: 'signIn',
  1698: 'signIn',
  3118: 'signIn',
  1142: 'notAllowed',
  1143: 'notAllowed',
  1227: 'notAllowed',
  1290: 'readOnly',
  1792: 'readOnly',
  1836: 'readOnly',
  1146: 'tableMissing',
  1054: 'otherTable',
  1176: 'otherTable',
  1347: 'otherTable',
  1205: 'late',
  1317: 'late',
  1969: 'late',
  3024: 'late',
  1040: 'full',
  1053: 'unreachable',
  1152: 'unreachable',
  1203: 'full',
  1226: 'full',
  1927: 'unreachable',
  // Larger than max_allowed_packet.
  1153: 'statement',
};
const unknownDatabase = 1049;
const deadlock = 1213;

/** Made of the code alone: the message holds values. */
export function toMysqlError(error: unknown, details: StoreFaultDetails, isSigningIn = false): SvcError {
  if (error instanceof SvcError) return error;
  const { code, errno } = error as MysqlError;
  // That of the URL when signing in, that of the table afterwards.
  const isMissing = errno === unknownDatabase;
  const fault = isMissing ? (isSigningIn ? 'signIn' : 'tableMissing') : faultOf(error as MysqlError);
  return storeError(fault, {
    ...details,
    code: typeof code === 'string' ? code : undefined,
  });
}

function faultOf({ code, errno, fatal }: MysqlError): StoreFault {
  const known = typeof errno === 'number' ? faults[errno] : undefined;
  if (known !== undefined) return known;
  if (/^AUTH_SWITCH/.test(String(code))) return 'signIn';
  return fatal === true || !/^ER_/.test(String(code)) ? 'unreachable' : 'statement';
}

export function isPassingInMysql(error: unknown): boolean {
  return (error as MysqlError | undefined)?.errno === deadlock;
}

export function isReadOnlyInMysql(error: unknown): boolean {
  return faults[Number((error as MysqlError | undefined)?.errno)] === 'readOnly';
}
