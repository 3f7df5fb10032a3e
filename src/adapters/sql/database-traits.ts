import { systemClock } from '../../ground/clock.ts';
import { type Logger, throttledLog } from '../../observe/logger.ts';
import type { DatabaseTraits } from '../../outbox/outbox-store.ts';
import { definitionMayWrite, isPure } from '../../transaction/statements.ts';
import { type Dialect, query, type SqlRow, type Work } from './statement.ts';

/** Needs no special rights, except for the definition of a view in MySQL. */
export function* databaseTraits({ name }: Dialect): Work<DatabaseTraits> {
  if (name === 'postgres') return { writingViews: yield* viewsOfPostgres(), maxPacketBytes: undefined };
  if (name === 'sqlite') return { writingViews: [], maxPacketBytes: undefined };
  const [found] = yield* query('SELECT @@max_allowed_packet AS bytes');
  return { writingViews: yield* viewsOfMysql(), maxPacketBytes: Number(found?.bytes) };
}

/** `pg_depend` has functions of extensions, but none of the database itself. */
const functionOf = `LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid JOIN pg_proc p ON p.oid = CASE WHEN d.refclassid = 'pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END`;
const postgresViews =
  `WITH RECURSIVE calling (oid, name) AS (` +
  `SELECT r.ev_class, p.proname FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid ${functionOf} WHERE r.ev_type = '1' ` +
  `UNION SELECT y.polrelid, p.proname FROM pg_policy y JOIN pg_depend d ON d.classid = 'pg_policy'::regclass AND d.objid = y.oid ${functionOf} WHERE y.polcmd IN ('*', 'r') ` +
  // Views that read another one.
  `UNION SELECT r.ev_class, c.name FROM calling c JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.classid = 'pg_rewrite'::regclass JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_type = '1' AND r.ev_class <> c.oid` +
  `) SELECT DISTINCT t.relname AS view, c.name AS function FROM calling c JOIN pg_class t ON t.oid = c.oid WHERE t.relkind <> 'm' AND t.relnamespace <> 'pg_catalog'::regnamespace AND t.relnamespace <> 'information_schema'::regnamespace`;

function* viewsOfPostgres(): Work<readonly string[]> {
  const rows = yield* query(postgresViews);
  const writing = rows.filter(({ function: called }) => !isPure(String(called).toLowerCase(), 'postgres'));
  return [...new Set(writing.map(({ view }) => String(view)))];
}

/** The definition is empty without the right to see it. Such a view counts as one that writes. */
function* viewsOfMysql(): Work<readonly string[]> {
  const rows = yield* query(
    `SELECT TABLE_NAME AS name, VIEW_DEFINITION AS definition FROM information_schema.VIEWS WHERE TABLE_SCHEMA NOT IN ('sys', 'mysql', 'information_schema', 'performance_schema')`,
  );
  const views = rows.map(({ name, definition }) => ({
    name: String(name),
    definition: String(definition ?? ''),
  }));
  const writing = new Set<string>();
  for (const { name, definition } of views)
    if (definition === '' || definitionMayWrite(definition, 'mysql')) writing.add(name);
  // Views that read another one.
  for (let before = -1; before !== writing.size; ) {
    before = writing.size;
    for (const { name, definition } of views)
      if ([...writing].some((other) => definition.includes(`\`${other}\``))) writing.add(name);
  }
  return [...writing];
}

/** The holder of a lock, from the columns pid, name, address, state and seconds. All but pid may be null. */
export function blockerText(row: SqlRow | undefined): string | undefined {
  if (row === undefined) return undefined;
  const { pid, name, address, state, seconds } = row;
  const about = [name, address, state].filter((each) => each !== null && each !== undefined && each !== '');
  const since = seconds === null || seconds === undefined ? '' : ` for ${seconds} s`;
  return about.length === 0 ? `process ${pid}` : `process ${pid} (${about.join(', ')}${since})`;
}

export function sayBlocked(database: string, logger: Logger | undefined): (blocker: string) => void {
  if (logger === undefined) return () => {};
  const say = throttledLog(logger, systemClock);
  return (blocker) =>
    say('blocked', `outbox: a statement waits for a lock in ${database}, which ${blocker} holds`);
}
