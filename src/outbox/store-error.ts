import { SvcError } from '../ground/errors.ts';

export type StoreFault =
  | 'unreachable'
  | 'full'
  | 'late'
  | 'closed'
  | 'otherCopy'
  | 'signIn'
  | 'notAllowed'
  | 'notOwner'
  | 'readOnly'
  | 'tableMissing'
  | 'otherTable'
  | 'statement';

export interface StoreFaultDetails {
  /** As in `postgres at db:5432`, without user and password. */
  readonly database: string;
  readonly table: string;
  /** For commands: `postgres`, `mysql`, `sqlite`. */
  readonly dialect: string;
  /** Code of the driver or the database, which never contains a value: `ECONNREFUSED`, `42P01`. */
  readonly code?: string | undefined;
}

/** The error of a store, made from codes only: messages and details of databases quote values of rows. */
export function storeError(fault: StoreFault, details: StoreFaultDetails): SvcError {
  const { database, table, dialect } = details;
  const because = codeOf(details.code);
  switch (fault) {
    case 'unreachable':
      return new SvcError(
        'SVC_OUTBOX_UNREACHABLE',
        `the outbox cannot reach ${database}${because}: check svc.outbox.datasource.url and that the database runs`,
      );
    case 'full':
      return new SvcError(
        'SVC_OUTBOX_UNREACHABLE',
        `${database} has no connection left for the outbox${because}: raise its limit, or let fewer processes relay (svc.outbox.publisher-enabled: false, and "npx --no svc relay")`,
      );
    case 'late':
      return new SvcError(
        'SVC_OUTBOX_UNREACHABLE',
        `${database} has not answered the outbox in time${because}: look for locks and for a database that is overloaded`,
      );
    case 'closed':
      return new SvcError('SVC_OUTBOX_UNREACHABLE', `the connection of the outbox to ${database} is closed`);
    case 'otherCopy':
      return new SvcError(
        'SVC_OUTBOX_DRIVER',
        `svc does not open ${database} beside the application's driver${because}, because two copies of SQLite in one process break each other's locks and damage the file. Set svc.outbox.publisher-enabled to false here, and run "npx --no svc relay"`,
      );
    case 'signIn':
      return new SvcError(
        'SVC_OUTBOX_SIGN_IN',
        `${database} refuses the login of the outbox${because}: check user, password and database in svc.outbox.datasource.url`,
      );
    case 'notAllowed':
      return new SvcError(
        'SVC_OUTBOX_NOT_ALLOWED',
        `${database} does not allow the user of svc.outbox.datasource.url the permissions of the outbox${because}: ${grants(dialect, table)}`,
      );
    case 'notOwner':
      return new SvcError(
        'SVC_OUTBOX_NOT_ALLOWED',
        `the user of svc.outbox.datasource.url may not create and drop partitions of ${table} in ${database}. Make it their owner, or run "npx --no svc outbox migrate" once a day as the owner. Until then rows go to the default partition, and old days stay`,
      );
    case 'readOnly':
      return new SvcError(
        'SVC_OUTBOX_READ_ONLY',
        `${database} is read-only${because}. If this is not a failover that passes, name the primary server in svc.outbox.datasource.url`,
      );
    case 'tableMissing':
      return new SvcError(
        'SVC_OUTBOX_TABLE_MISSING',
        `${database} has no table ${table} of the outbox, or only parts of it${because}. Run the output of "npx --no svc outbox ddl", or set svc.outbox.initialize-schema to always`,
      );
    case 'otherTable':
      return new SvcError(
        'SVC_OUTBOX_SCHEMA_VERSION',
        `the table ${table} in ${database} is not an outbox table of svc${because}: name another table in svc.outbox.table, or remove this one`,
      );
    case 'statement':
      return new SvcError(
        'SVC_OUTBOX_STATEMENT',
        `${database} refused a statement of the outbox on ${table}${because}: look up the code in the documentation of the database`,
      );
  }
}

/** The errors of a table that exists, but that this process must not use. */
export const unfitTable = {
  wrongVersion(found: number, wanted: number, details: StoreFaultDetails): SvcError {
    const { database, table } = details;
    const says =
      found < wanted
        ? `older than this svc needs (${wanted}): run what "npx --no svc outbox ddl${found > 0 ? ` --from ${found}` : ''}" prints, or set svc.outbox.initialize-schema to always`
        : `newer than this svc (${wanted}) can use: update svc in this application`;
    return new SvcError(
      'SVC_OUTBOX_SCHEMA_VERSION',
      `the table ${table} in ${database} has version ${found}, ${says}`,
    );
  },

  /** The table is set up for other settings, which would lose events. */
  contradiction(says: string): SvcError {
    return new SvcError('SVC_OUTBOX_CONTRADICTION', says);
  },

  strayRows(count: number, { database, table }: StoreFaultDetails): SvcError {
    const rows = count === 1 ? '1 row' : `${count} rows`;
    return new SvcError(
      'SVC_OUTBOX_STRAY_ROWS',
      `the table ${table} in ${database} has ${rows} that no relay finds. svc did not write them: their shard is not 0 to 63, their id not 1 to 9007199254740991, or their status is unknown. Correct or delete them`,
    );
  },
};

/** Whether it can resolve itself: the database is away, or is not the primary yet. */
export function isPassing(error: unknown): boolean {
  return error instanceof SvcError && passing.has(error.code);
}

const passing: ReadonlySet<string> = new Set(['SVC_OUTBOX_UNREACHABLE', 'SVC_OUTBOX_READ_ONLY']);

/** The value is omitted: it may contain a password. */
export function badUrl(says: string): SvcError {
  return new SvcError('SVC_OUTBOX_URL', `svc.outbox.datasource.url cannot be used: ${says}`);
}

export function badTable(): SvcError {
  return new SvcError(
    'SVC_OUTBOX_URL',
    'svc.outbox.table must be at most 63 letters, digits and _, with or without schema and dot',
  );
}

export function packageMissing(name: string, { code, message }: NodeJS.ErrnoException): SvcError {
  const missing = /^(ERR_)?MODULE_NOT_FOUND$/.test(code ?? '') && message.includes(`'${name}'`);
  return new SvcError(
    'SVC_OUTBOX_PACKAGE_MISSING',
    missing
      ? `the outbox needs the package ${name}, which is not installed: npm install ${name}`
      : `the package ${name} could not be loaded${codeOf(code)}`,
  );
}

const grants = (dialect: string, table: string): string =>
  dialect === 'sqlite'
    ? 'check the permissions of its file and folder'
    : `grant SELECT, INSERT, UPDATE and DELETE on ${table} and its helper tables ("npx --no svc outbox ddl" prints them). For initialize-schema always, also allow it to create tables`;

function codeOf(code: string | undefined): string {
  return code !== undefined && /^\w{1,60}$/.test(code) ? ` (${code})` : '';
}
