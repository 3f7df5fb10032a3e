import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

const example = resolve(import.meta.dirname, '../examples/shop');

/** A shop on SQLite: three orders, of which one is rolled back, and where their events are. */
export function showOutbox(say: (text?: string) => void, title: (text: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'svc-demo-'));
  const database = join(folder, 'shop.db');
  const topics = join(folder, 'topics');
  try {
    title('An application without a line of svc in its source: examples/shop');
    say('   node --import svc/register src/main.ts');
    const run = spawnSync(process.execPath, ['--import', 'svc/register', 'src/main.ts'], {
      cwd: example,
      encoding: 'utf8',
      env: {
        ...process.env,
        ...{ SHOP_DB: database, SVC_OUTBOX_DATASOURCE_URL: `sqlite:${database}` },
        ...{ SVC_BROKER_FILE_PATH: topics, MANAGEMENT_SERVER_PORT: '0' },
      },
    });
    say(indented(run.stdout));
    if (run.status !== 0) throw new Error(`the application ended with ${run.status}:\n${run.stderr}`);

    const shop = new DatabaseSync(database);
    title('Its tables: what was rolled back is not there');
    say(tableOf(shop, 'SELECT id, product, quantity FROM orders'));
    title('The outbox, in the same database: an event for each function of a transaction that was committed');
    const outbox = 'SELECT event_type, aggregate_type, aggregate_id, topic, status FROM svc_outbox_events';
    say(tableOf(shop, `${outbox} ORDER BY id`));
    shop.close();

    title('Their topics, to which the relay has sent them');
    for (const topic of ['shop.orders.v1', 'shop.stock.v1']) {
      const records = readFileSync(join(topics, `${topic}.ndjson`), 'utf8')
        .trimEnd()
        .split('\n');
      for (const record of records) {
        const { key, value } = JSON.parse(record);
        say(`   ${topic}  key ${key}  ${value.eventType}  ${JSON.stringify(value.payload)}`);
      }
    }

    title('Where to look next');
    say('   examples/shop/svc.config.yaml     which functions store what');
    say(
      '   docs/outbox.md                    when to use it, which libraries join by themselves, what it costs',
    );
    say('   npm run demo                      events that are sent directly');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function tableOf(database: DatabaseSync, query: string): string {
  const rows = database.prepare(query).all();
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
