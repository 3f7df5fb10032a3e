import type { TestDatabase } from '../../support/database.ts';
import { callIn } from '../read-topics.ts';
import type { OutboxEvidence, OutboxRow } from './outbox-account.ts';
import type { OutboxDatabase } from './outbox-databases.ts';

/** Rows read at once: a whole table of them would take longer than an answer may. */
const pageRows = 2_000;

/** The tables of the application: what it tried, and what it has committed. */
export async function makeTables(
  { query }: TestDatabase,
  url: string,
  { numberColumn }: OutboxDatabase,
): Promise<void> {
  await query(url, 'CREATE TABLE orders (name varchar(40) NOT NULL PRIMARY KEY)');
  await query(url, `CREATE TABLE attempts (${numberColumn}, rolls_back boolean NOT NULL)`);
}

/** All that the database knows when all is quiet. */
export async function databaseEvidence(
  { query }: TestDatabase,
  url: string,
): Promise<Omit<OutboxEvidence, 'topic'>> {
  /** All rows, in the order of the first column, which is a key. */
  async function all(columns: string, table: string): Promise<Record<string, unknown>[]> {
    const [key = ''] = columns.split(',');
    const rows: Record<string, unknown>[] = [];
    for (let after = ''; ; ) {
      const page = await query(
        url,
        `SELECT ${columns} FROM ${table} ${after} ORDER BY ${key} LIMIT ${pageRows}`,
      );
      rows.push(...page);
      if (page.length < pageRows) return rows;
      after = `WHERE ${key} > '${page.at(-1)?.[key]}'`;
    }
  }
  const orders = await all('name', 'orders');
  const attempts = await all('number,rolls_back', 'attempts');
  const rows = await all('id,event_id,aggregate_id,status,payload', 'svc_outbox_events');
  return {
    orders: orders.map(({ name }) => String(name)),
    attempts: new Map(attempts.map(({ number, rolls_back }) => [Number(number), Boolean(rolls_back)])),
    rows: rows.map(rowOf),
  };
}

function rowOf(row: Record<string, unknown>): OutboxRow {
  const { key, number } = callIn(Buffer.from(row.payload as Uint8Array).toString());
  return {
    ...{ eventId: String(row.event_id), aggregateId: String(row.aggregate_id), status: String(row.status) },
    order: `${key}/${number}`,
  };
}
