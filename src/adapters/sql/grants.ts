import { type DialectName, partsOfTable, quoteName } from '../../outbox/insert-row.ts';
import { tablesOf } from './dialect.ts';

export interface Grantees {
  /** The user of `svc.outbox.datasource.url`. */
  readonly relay?: string | undefined;
  /** The user of the application's own connections, which insert. */
  readonly application?: string | undefined;
}

export function grantStatements(dialect: DialectName, table: string, grantees: Grantees): readonly string[] {
  if (dialect === 'sqlite') return [];
  const { rows, shards, relays, schema } = tablesOf(dialect, table);
  const { schema: place } = partsOfTable(table) ?? {};
  const grant = (rights: string, on: string, who: string): string =>
    `GRANT ${rights} ON ${on} TO ${grantee(dialect, who)}`;
  const usage = (who: string): readonly string[] =>
    dialect === 'postgres' && place !== undefined
      ? [grant('USAGE', `SCHEMA ${quoteName(dialect, place)}`, who)]
      : [];
  const { relay, application } = grantees;
  const all = 'SELECT, INSERT, UPDATE, DELETE';
  return [
    ...(relay === undefined
      ? []
      : [
          ...usage(relay),
          ...[rows, shards, relays].map((on) => grant(all, on, relay)),
          grant('SELECT', schema, relay),
        ]),
    ...(application === undefined ? [] : [...usage(application), grant('INSERT', rows, application)]),
  ];
}

/** A user of MySQL may be given with the host that it comes from: `name@host`. */
function grantee(dialect: DialectName, who: string): string {
  if (dialect !== 'mysql') return `"${who.replaceAll('"', '""')}"`;
  const at = who.lastIndexOf('@');
  const [name, host] = at < 0 ? [who, '%'] : [who.slice(0, at), who.slice(at + 1)];
  const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
  return `${quoted(name)}@${quoted(host)}`;
}
