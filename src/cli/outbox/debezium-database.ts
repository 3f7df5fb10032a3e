import { dialectOf } from '../../transaction/dialect.ts';
import { WrongUse } from '../wrong-use.ts';

export type ConnectorKind = 'postgres' | 'mysql' | 'mariadb';

/** A database as a connector is told of it. */
export interface ConnectorDatabase {
  readonly kind: ConnectorKind;
  readonly host: string;
  readonly port: string;
  readonly name: string;
  readonly user: string;
}

const ports: Readonly<Record<ConnectorKind, string>> = { postgres: '5432', mysql: '3306', mariadb: '3306' };

/**
 * Of the URL of the outbox; MariaDB may be meant by `mysql://` as well, so it can be given.
 *
 * @throws WrongUse
 */
export function databaseOf(url: string, connector?: string, user?: string): ConnectorDatabase {
  const kind = connector === undefined ? kindOf(url) : kindNamed(connector);
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const name = decodeURIComponent(parsed?.pathname.slice(1) ?? '');
  if (parsed === undefined || parsed.hostname === '' || name === '')
    throw new WrongUse(
      'a connector needs the host and the name of the database in svc.outbox.datasource.url: postgres://user@host/database',
    );
  if ((dialectOf(url) === 'postgres') !== (kind === 'postgres'))
    throw new WrongUse(`--connector ${kind} does not fit the database of svc.outbox.datasource.url`);
  return {
    ...{ kind, name, host: parsed.hostname.replace(/^\[|\]$/g, '') },
    port: parsed.port || ports[kind],
    user: user ?? decodeURIComponent(parsed.username),
  };
}

function kindOf(url: string): ConnectorKind {
  const dialect = dialectOf(url);
  if (dialect === 'sqlite') throw new WrongUse('Debezium has no connector for SQLite');
  if (dialect !== 'mysql') return 'postgres';
  return /^mariadb:/i.test(url) ? 'mariadb' : 'mysql';
}

function kindNamed(text: string): ConnectorKind {
  if (Object.hasOwn(ports, text)) return text as ConnectorKind;
  throw new WrongUse('--connector takes postgres, mysql or mariadb');
}
