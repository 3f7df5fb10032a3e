import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** A shop on SQLite: three orders, of which one is rolled back, and where their events are. @param folder of the example */
export function showOutbox(
  folder: string,
  say: (text?: string) => void,
  title: (text: string) => void,
): void {
  say('An unchanged application with a database, started with one flag');
  say('   cd examples/shop && node --import svc/register src/main.ts');
  const run = spawnSync(process.execPath, ['--import', 'svc/register', 'src/main.ts'], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, SVC_BROKER_CLIENT: 'file', MANAGEMENT_SERVER_PORT: '0' },
  });
  say(indented(run.stdout));
  if (run.status !== 0) throw new Error(`the application ended with ${run.status}:\n${run.stderr}`);

  const shop = new DatabaseSync(join(folder, 'shop.db'));
  title('Its table: the order that was rolled back is not there');
  const orders = rowsOf(shop, 'SELECT id, product, quantity FROM orders');
  say(tableOf(orders));
  title('The outbox, in the same database: svc stored each event in the transaction of its order');
  const stored = rowsOf(
    shop,
    'SELECT event_type, aggregate_type, aggregate_id, topic, status FROM svc_outbox_events ORDER BY id',
  );
  say(tableOf(stored));
  shop.close();

  title('The topics: the relay has sent the events there');
  const found = ['shop.orders.v1', 'shop.stock.v1'].flatMap((topic) => {
    const records = readFileSync(join(folder, 'svc-topics', `${topic}.ndjson`), 'utf8')
      .trimEnd()
      .split('\n');
    return records.map((record) => ({ topic, ...(JSON.parse(record) as TopicRecord) }));
  });
  for (const { topic, key, value } of found)
    say(`   ${topic}  key ${key}  ${value.eventType}  ${JSON.stringify(value.payload)}`);

  const published = stored.filter(({ status }) => status === 'PUBLISHED').length;
  // The order, and what it takes from the stock.
  if (stored.length !== 2 * orders.length || published !== stored.length || found.length !== published)
    throw new Error(
      `the account does not add up: ${orders.length} orders, ${stored.length} events stored, ${published} published, ${found.length} in the topics`,
    );
  say(
    `\n   ${orders.length} orders, ${stored.length} events stored, ${published} published, ${found.length} in the topics; none of the order that was rolled back`,
  );
  say('\ndocs/outbox.md              when to use it, and what it costs');
  say('npm run demo                events that are sent directly, and an outage');
}

interface TopicRecord {
  readonly key: string;
  readonly value: { readonly eventType: string; readonly payload: unknown };
}

type Row = Readonly<Record<string, unknown>>;

const rowsOf = (database: DatabaseSync, query: string): Row[] => database.prepare(query).all();

function tableOf(rows: readonly Row[]): string {
  const columns = Object.keys(rows[0] ?? {});
  const lines = [columns, ...rows.map((row) => columns.map((column) => String(row[column])))];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)));
  return lines
    .map(
      (line) =>
        `   ${line
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join('  ')
          .trimEnd()}`,
    )
    .join('\n');
}

function indented(text: string): string {
  return text.trimEnd().replace(/^/gm, '   ');
}
