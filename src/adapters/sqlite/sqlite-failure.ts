import { SvcError } from '../../ground/errors.ts';
import { type StoreFault, type StoreFaultDetails, storeError } from '../../outbox/store-error.ts';

interface SqliteError {
  /** `better-sqlite3`: the name of the extended result code. */
  readonly code?: unknown;
  /** `node:sqlite`: its number. */
  readonly errcode?: unknown;
  readonly message?: unknown;
}

/** Primary result codes, as in sqlite.org/rescode.html. */
const names: Readonly<Record<number, string>> = {
  1: 'SQLITE_ERROR',
  3: 'SQLITE_PERM',
  5: 'SQLITE_BUSY',
  6: 'SQLITE_LOCKED',
  8: 'SQLITE_READONLY',
  10: 'SQLITE_IOERR',
  11: 'SQLITE_CORRUPT',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
  15: 'SQLITE_PROTOCOL',
  23: 'SQLITE_AUTH',
  26: 'SQLITE_NOTADB',
};

export function toSqliteError(error: unknown, details: StoreFaultDetails): SvcError {
  if (error instanceof SvcError) return error;
  const code = nameOf(error as SqliteError);
  return storeError(faultOf(code, String((error as SqliteError).message)), { ...details, code });
}

/** Somebody else has the file at the moment. */
export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED|PROTOCOL)/.test(nameOf((error ?? {}) as SqliteError) ?? '');
}

function nameOf({ code, errcode }: SqliteError): string | undefined {
  if (typeof errcode === 'number') return names[errcode & 0xff] ?? `SQLITE_${errcode}`;
  return typeof code === 'string' ? code : undefined;
}

function faultOf(code: string | undefined, message: string): StoreFault {
  // The code says no more than that something is wrong with the statement; the message, beside it, what.
  if (code === 'SQLITE_ERROR') {
    if (/^(no such table|unknown database)\b/.test(message)) return 'tableMissing';
    if (/\bno such column\b|\bhas no column\b|^(cannot modify|table .* already exists)/.test(message))
      return 'otherTable';
    return 'statement';
  }
  // A file does not become writable by itself.
  if (/^SQLITE_(READONLY|PERM|AUTH)/.test(code ?? '')) return 'notAllowed';
  if (/^SQLITE_(BUSY|LOCKED)/.test(code ?? '')) return 'late';
  if (/^SQLITE_(CANTOPEN|IOERR|NOTADB|CORRUPT|PROTOCOL)/.test(code ?? '')) return 'unreachable';
  return code === undefined || code.startsWith('ERR_') ? 'unreachable' : 'statement';
}
