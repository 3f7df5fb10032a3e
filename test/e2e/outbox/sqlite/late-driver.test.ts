import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { type Files, freshFolder, type Run, runApp, writeFiles } from '../../support/run-app.ts';
import { subject } from '../../support/subject.ts';
import { configOf } from '../../support/topic-config.ts';
import { everydayApplication } from '../everyday-application.ts';

const tested = await subject();

/** Another process, which looks whether the lock of the application's transaction holds. */
const other = `
import Database from 'better-sqlite3';

const db = new Database(process.argv[2], { timeout: 0 });
let taken = 0;
let refused = 0;
const timer = setInterval(() => {
  try {
    db.exec('BEGIN IMMEDIATE');
    db.exec('ROLLBACK');
    taken++;
  } catch {
    refused++;
  }
}, 2);
process.on('message', () => {
  clearInterval(timer);
  process.send({ taken, refused });
  process.disconnect();
});
process.send('ready');
`;

const main = `
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

// svc has made its table, and its relay has the file open.
while (!existsSync('shop.db-wal')) await pause(5);
await pause(300);
const { create, begin, place, commit, check } = await import('./orders.mjs');
create();
begin();
place('a');
commit();
// While this one is open, the relay wants to write that the event of the first is sent.
begin();
place('b');
const other = fork('other.mjs', ['shop.db'], { execArgv: [] });
await once(other, 'message');
await pause(500);
other.send('end');
const [told] = await once(other, 'message');
commit();
const topic = 'svc-topics/events.ndjson';
const sent = () => (existsSync(topic) ? readFileSync(topic, 'utf8').trim().split('\\n').length : 0);
for (let tries = 0; tries < 500 && sent() < 2; tries++) await pause(10);
console.log(JSON.stringify({ ...told, check: check() }));
`;

const orders = (importing: string, handle: string): string => `
${importing}

const db = ${handle};
export const create = () => db.exec('CREATE TABLE orders (id TEXT PRIMARY KEY)');
export const begin = () => db.exec('BEGIN IMMEDIATE');
export function place(id) {
  db.prepare('INSERT INTO orders (id) VALUES (?)').run(id);
  return { id };
}
export const commit = () => db.exec('COMMIT');
export const check = () => db.prepare('PRAGMA integrity_check').get().integrity_check;
`;

/** SQLite takes the file of its log away with the last handle. */
const foreign = `
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as pause } from 'node:timers/promises';

while (!existsSync('shop.db-wal')) await pause(5);
await pause(300);
createRequire(import.meta.url)('sqlite3');
await pause(500);
console.log(existsSync('shop.db-wal'));
`;

const onNodeSqlite = orders("import { DatabaseSync } from 'node:sqlite';", "new DatabaseSync('shop.db')");
const onBetterSqlite3 = orders("import Database from 'better-sqlite3';", "new Database('shop.db')");

/** The first one is loaded by something else of the application. */
const onTheSecond = `import 'better-sqlite3';\n${onNodeSqlite}`;

interface Case {
  readonly title: string;
  readonly text: string;
  readonly hasOwnCopy?: boolean;
}

const another: readonly Case[] = [
  { title: 'another one than svc has taken', text: onNodeSqlite },
  { title: 'the second one that it loads', text: onTheSecond },
];
// svc follows `node:sqlite` from 22.16 on.
const cases: readonly Case[] = [
  ...(tested.version.startsWith('22.15.') ? [] : another),
  { title: 'another copy of the one that svc has taken', text: onBetterSqlite3, hasOwnCopy: true },
];

describe('outbox: the locks of an application that loads its driver of SQLite after svc has opened the file', function () {
  this.timeout(60_000);
  let runs: readonly Promise<Run>[];
  before(() => {
    const application = everydayApplication();
    runs = cases.map((each) => run(application, each));
  });

  it('are left alone beside a driver that has a SQLite of its own: svc closes the file', async () => {
    const folder = freshFolder(everydayApplication(), 'late-foreign');
    writeFiles(folder, {
      ...filesOf(''),
      'node_modules/sqlite3/index.js': '',
      'main.mjs': foreign,
    });
    const { code, stdout, stderr } = await start(folder);
    assert.equal(code, 0, stderr);
    assert.equal(stdout, 'false\n');
    assert.match(stderr, /svc does not follow transactions of the driver sqlite3/);
    assert.match(stderr, /svc does not open SQLite in .* \(sqlite3\).* run "npx --no svc relay"/);
  });

  for (const [index, { title }] of cases.entries())
    it(`hold, where it is ${title}`, async () => assertLocked(await (runs[index] as Promise<Run>)));
});

function run(application: string, { text, hasOwnCopy }: Case): Promise<Run> {
  const folder = freshFolder(application, 'late-driver');
  const copied = join('node_modules', 'better-sqlite3');
  if (hasOwnCopy) cpSync(join(application, copied), join(folder, copied), { recursive: true });
  writeFiles(folder, filesOf(text));
  return start(folder);
}

function start(folder: string): Promise<Run> {
  const env = { SVC_OUTBOX_DATASOURCE_URL: 'sqlite:shop.db' };
  return runApp({ node: tested.node, cwd: folder, args: ['--import', 'svc/register', 'main.mjs'], env });
}

function filesOf(text: string): Files {
  const placed = { function: 'place', eventType: 'PLACED', payload: '{ id: #args[0] }' };
  const outbox = { aggregateType: 'order', aggregateId: '#args[0]' };
  const config = configOf([{ module: './orders.mjs', ...placed, outbox }], {
    broker: { client: 'file' },
    outbox: { enabled: true, 'poll-interval-ms': 20 },
  });
  return {
    'main.mjs': main,
    'other.mjs': other,
    'orders.mjs': text,
    'package.json': JSON.stringify({ name: 'shop', type: 'module' }),
    'svc.config.json': JSON.stringify(config),
  };
}

function assertLocked({ code, stdout, stderr, events }: Run): void {
  assert.equal(code, 0, stderr);
  const { taken, refused, check } = JSON.parse(stdout);
  assert.equal(taken, 0, 'the lock of the open transaction did not hold');
  assert.ok(refused > 0, 'nobody has tried');
  assert.equal(check, 'ok');
  assert.deepEqual(
    events.map(({ value }) => value.payload),
    [{ id: 'a' }, { id: 'b' }],
  );
}
