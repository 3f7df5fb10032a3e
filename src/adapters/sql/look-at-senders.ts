import { eraseSuffix, routeColumn } from '../../outbox/erase-row.ts';
import { besideTable, type DialectName, partsOfTable } from '../../outbox/insert-row.ts';
import type { Senders } from '../../outbox/outbox-store.ts';
import { type Dialect, type Tables, tablesOf } from './dialect.ts';
import { query, queryInOrder, type Work } from './statement.ts';

/** What the database knows of who sends the rows. A user who may do what a relay does may ask all of it. */
export function* lookAtSenders(dialect: Dialect, table: string): Work<Senders> {
  const tables = tablesOf(dialect.name, table);
  const { sql, values } = questions[dialect.name](table, tables);
  const alive = `(SELECT COUNT(*) FROM ${tables.relays} WHERE alive_until > ${dialect.now})`;
  const [found] = yield* query(`SELECT ${sql}, ${alive} AS relays`, ...values);
  const is = (name: string): boolean => Number(found?.[name]) > 0;
  const age = `${dialect.msOf(dialect.now)} - ${dialect.msOf('created_at')}`;
  const [oldest] = yield* queryInOrder(
    `SELECT ${age} AS age_ms FROM ${tables.rows}${dialect.useIndex(tables.statusIndex)} WHERE status = 'PENDING' ORDER BY id, shard LIMIT 1`,
  );
  return {
    erases: is('erases'),
    isRouted: is('routed'),
    log: is('readers') ? 'read' : is('logs') ? 'kept' : 'none',
    relays: Number(found?.relays),
    oldestMs: oldest === undefined ? null : Number(oldest.age_ms),
  };
}

interface Question {
  readonly sql: string;
  readonly values: readonly string[];
}

const questions: Readonly<Record<DialectName, (table: string, tables: Tables) => Question>> = {
  postgres(table, { rows }) {
    const trigger = besideTable(partsOfTable(table)?.name ?? table, eraseSuffix);
    // One whose log is gone is as good as none.
    const slots = `FROM pg_replication_slots WHERE slot_type = 'logical' AND database = current_database() AND wal_status IS DISTINCT FROM 'lost'`;
    return {
      sql:
        `(SELECT COUNT(*) FROM pg_trigger WHERE tgrelid = to_regclass(?) AND tgname = ? AND tgenabled <> 'D') AS erases, ` +
        `(SELECT COUNT(*) FROM pg_attribute WHERE attrelid = to_regclass(?) AND attname = ? AND NOT attisdropped) AS routed, ` +
        `(SELECT COUNT(*) ${slots}) AS logs, (SELECT COUNT(*) ${slots} AND active) AS readers`,
      values: [rows, trigger, rows, routeColumn],
    };
  },
  mysql(table) {
    const { schema, name = table } = partsOfTable(table) ?? {};
    const place = schema === undefined ? 'DATABASE()' : '?';
    return {
      sql:
        `0 AS erases, @@global.log_bin AS logs, 0 AS readers, ` +
        `(SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = ${place} AND table_name = ? AND column_name = ?) AS routed`,
      values: [...(schema === undefined ? [] : [schema]), name, routeColumn],
    };
  },
  sqlite: () => ({ sql: '0 AS erases, 0 AS routed, 0 AS logs, 0 AS readers', values: [] }),
};
