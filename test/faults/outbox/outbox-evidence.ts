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
  const orders = await query(url, 'SELECT name FROM orders');
  const attempts = await query(url, 'SELECT number, rolls_back FROM attempts');
  const rows: OutboxRow[] = [];
  for (let last = '0'; ; ) {
    const page = await query(
      url,
      `SELECT id, event_id, aggregate_id, status, payload FROM svc_outbox_events WHERE id > ${last} ORDER BY id LIMIT ${pageRows}`,
    );
    rows.push(...page.map(rowOf));
    if (page.length < pageRows) break;
    last = String(page.at(-1)?.id);
  }
  return {
    orders: orders.map(({ name }) => String(name)),
    attempts: new Map(attempts.map(({ number, rolls_back }) => [Number(number), Boolean(rolls_back)])),
    rows,
  };
}

function rowOf(row: Record<string, unknown>): OutboxRow {
  const { key, number } = callIn(Buffer.from(row.payload as Uint8Array).toString());
  return {
    ...{ eventId: String(row.event_id), aggregateId: String(row.aggregate_id), status: String(row.status) },
    order: `${key}/${number}`,
  };
}
