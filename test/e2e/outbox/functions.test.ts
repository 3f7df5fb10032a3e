import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { startMariadb } from '../../support/mariadb.ts';
import { startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
import { type SilentServer, startSilentServer } from '../../support/silent-server.ts';
import { type Files, freshFolder, type Run, runApp, writeFiles } from '../support/run-app.ts';
import { subject } from '../support/subject.ts';
import { type CaseTarget, configOf } from '../support/topic-config.ts';
import { everydayApplication } from './everyday-application.ts';

const tested = await subject();

/** svc makes its table after the start. */
const prepared = `
async function prepare(query) {
  for (;;) {
    const [{ count }] = await query("SELECT count(*)::int AS count FROM information_schema.tables WHERE table_name = 'svc_outbox_events_schema'");
    if (count === 1) break;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await query('CREATE TABLE orders (id text PRIMARY KEY)');
}
`;

const onPostgresJs = `
import postgres from 'postgres';
import { outbox } from 'svc';
import { place, placeOwn } from './orders.mjs';
${prepared}
const sql = postgres(process.env.DATABASE, { onnotice() {} });
await prepare((text) => sql.unsafe(text));

await sql.begin((tx) => outbox.withTransaction(tx, () => place(tx, 'kept')));
await sql.begin((tx) => outbox.withTransaction(tx, async () => {
  await place(tx, 'dropped');
  throw new Error('thrown by the application');
})).catch(() => {});
await placeOwn(sql, 'own');
await sql.begin(async (tx) => {
  await outbox.save(tx, {
    eventType: 'SAVED', aggregateType: 'Order', aggregateId: 7, topic: 'saved', severity: 'WARN', headers: { tenant: 'acme' },
    payload: { id: 'saved', email: 'john@example.com' }, pii: ['email=EMAIL:MASK'],
  });
});
const ends = await Promise.all([
  place(sql, 'alone'),
  outbox.save(sql, { eventType: 'SAVED', aggregateType: 'Order', aggregateId: 8, payload: {} }),
  sql.begin((tx) => outbox.save(tx, { eventType: 'SAVED', aggregateType: 'Order', aggregateID: 8, payload: {} })),
].map((one) => one.then(() => 'done', ({ code, message }) => code + ' ' + message)));
console.log(JSON.stringify({ ends, orders: (await sql.unsafe('SELECT id FROM orders ORDER BY id')).map(({ id }) => id) }));
await sql.end();
`;

const orders = `
import { outbox } from 'svc';

export async function place(tx, id) {
  await tx.unsafe('INSERT INTO orders VALUES ($1)', [id]);
  return { id };
}

export const placeOwn = (sql, id) => outbox.runInTransaction(sql, async (tx) => {
  await tx.unsafe('INSERT INTO orders VALUES ($1)', [id]);
  return { id };
});
`;

const bundled = `
import pg from 'pg';
import { outbox } from 'svc';
${prepared}
if (process.argv[2] === 'watch') outbox.watch(pg);

async function place(client, id) {
  await client.query('INSERT INTO orders VALUES ($1)', [id]);
  return { id };
}

async function main() {
  const client = new pg.Client({ connectionString: process.env.DATABASE });
  await client.connect();
  await prepare(async (text) => (await client.query(text)).rows);
  const within = async (end, id) => {
    await client.query('BEGIN');
    const done = await place(client, id).then(() => outbox.current().via, ({ message }) => message);
    await client.query(end);
    return done;
  };
  console.log(JSON.stringify([await within('COMMIT', 'kept'), await within('ROLLBACK', 'dropped')]));
  await client.end();
}

main();
`;

requiring('postgres', 'outbox: functions of the application', function () {
  this.timeout(300_000);
  const outbox = { aggregateType: 'Order', aggregateId: '#result.id' };

  async function run(files: Files, targets: readonly CaseTarget[], ...args: string[]): Promise<Run> {
    const database = await (await startPostgres()).freshDatabase();
    const folder = freshFolder(everydayApplication(), 'functions');
    const outbox = { enabled: true, 'initialize-schema': 'always', 'poll-interval-ms': 100 };
    const svc = { outbox: { ...outbox, 'on-no-transaction': 'error' } };
    writeFiles(folder, {
      'package.json': '{ "name": "shop", "type": "module" }',
      'svc.config.json': JSON.stringify(configOf(targets, svc)),
      ...files,
    });
    if ('build.mjs' in files)
      execFileSync(process.execPath, ['build.mjs'], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
    const env = { DATABASE: database, SVC_OUTBOX_DATASOURCE_URL: database };
    const done = await runApp({
      node: tested.node,
      cwd: folder,
      args: ['--import', 'svc/register', ...args],
      env,
      timeoutMs: 30_000,
    });
    assert.equal(done.code, 0, done.stderr);
    return done;
  }

  describe('postgres.js, which svc does not follow', () => {
    let done: Run;
    before(async () => {
      const targets = ['place', 'placeOwn'].map((name) => ({
        ...{ module: './orders.mjs', function: name, eventType: name },
        ...{ payload: '{ id: #result.id }', outbox },
      }));
      done = await run({ 'main.mjs': onPostgresJs, 'orders.mjs': orders }, targets, 'main.mjs');
    });

    it('has the events of what was committed, and of nothing else', () => {
      assert.deepEqual(
        done.events.map(({ topic, key, value }) => [topic, key, value.eventType, value.payload]).sort(),
        [
          ['events', 'kept', 'place', { id: 'kept' }],
          ['events', 'own', 'placeOwn', { id: 'own' }],
          ['saved', '7', 'SAVED', { id: 'saved', email: 'jo**@ex*****.com' }],
        ],
      );
    });

    it('save: the record is as declared', () => {
      const saved = done.events.find(({ topic }) => topic === 'saved');
      assert.equal(saved?.headers.tenant, 'acme');
      assert.equal(saved?.headers.eventId, saved?.value.eventId);
      assert.equal(saved?.value.severity, 'WARN');
    });

    it('says what is wrong outside of a transaction, and with an event', () => {
      const { ends, orders: rows } = JSON.parse(done.stdout);
      assert.match(ends[0], /^SVC_OUTBOX_NO_TRANSACTION .*outbox\.withTransaction/);
      assert.match(ends[1], /^SVC_OUTBOX_NO_TRANSACTION /);
      assert.match(ends[2], /^SVC_OUTBOX_EVENT .*aggregateID: did you mean aggregateId/);
      assert.deepEqual(rows, ['alone', 'kept', 'own']);
    });

    it('says once which driver is not followed, and what to do', () => {
      const lines = done.stderr.match(/svc does not follow transactions of the driver postgres\..*/g);
      assert.equal(lines?.length, 1, done.stderr);
      assert.match(lines[0], /outbox\.withTransaction/);
    });
  });

  describe('pg within a bundle', () => {
    const build = `
      import { buildSync } from 'esbuild';
      buildSync({ entryPoints: ['main.js'], outfile: 'bundle.cjs', bundle: true, platform: 'node', format: 'cjs', external: ['svc', 'pg-native'] });
    `;
    const files = { 'main.js': bundled, 'build.mjs': build };
    const target = { module: './bundle.cjs', function: 'place', eventType: 'place', outbox };

    it('is followed where it is watched', async () => {
      const done = await run(files, [target], 'bundle.cjs', 'watch');
      assert.deepEqual(JSON.parse(done.stdout), ['driver', 'driver']);
      assert.deepEqual(
        done.events.map(({ key }) => key),
        ['kept'],
      );
    });

    it('is out of reach else, and the error says what to do', async () => {
      const done = await run(files, [target], 'bundle.cjs');
      assert.match(JSON.parse(done.stdout)[0], /in a bundle, use outbox\.watch/);
      assert.deepEqual(done.events, []);
    });
  });
});

const lost = {
  postgres: {
    start: startPostgres,
    connected: `
import pg from 'pg';
const client = new pg.Client({ connectionString: process.env.DATABASE });
await client.connect();
const { stream } = client.connection;
`,
  },
  mariadb: {
    start: startMariadb,
    connected: `
import mysql from 'mysql2/promise';
const client = await mysql.createConnection(process.env.DATABASE);
const { stream } = client.connection;
`,
  },
} as const;

/** The server of the tables never answers, and the application's own connection breaks meanwhile. */
const goesOn = `
import { place } from './orders.mjs';
client.on('error', () => {});
await client.query('CREATE TABLE orders (id varchar(64) PRIMARY KEY)');
await client.query('BEGIN');
setTimeout(() => stream.destroy(), 300);
const ends = [await place(client), await client.query('COMMIT').catch(() => 'failed')];
console.log(ends.join());
`;

for (const [server, { start, connected }] of Object.entries(lost))
  requiring(server as keyof typeof lost, `outbox: a call that waits for the tables on ${server}`, () => {
    let silent: SilentServer;
    before(async () => {
      silent = await startSilentServer();
    });
    after(() => silent?.close());

    it('keeps the process, although its connection is lost meanwhile', async function () {
      this.timeout(120_000);
      const database = await (await start()).freshDatabase();
      const folder = freshFolder(everydayApplication(), `lost-${server}`);
      const target = {
        ...{ module: './orders.mjs', function: 'place', eventType: 'PLACED', payload: '{ id: #result }' },
        outbox: { aggregateType: 'Order', aggregateId: '#result' },
      };
      const outbox = { enabled: true, 'initialize-schema': 'always', 'publisher-enabled': false };
      writeFiles(folder, {
        'package.json': '{ "name": "shop", "type": "module" }',
        'svc.config.json': JSON.stringify(configOf([target], { outbox, broker: { client: 'file' } })),
        'orders.mjs':
          "export async function place(client) { await client.query(\"INSERT INTO orders VALUES ('a')\"); return 'placed'; }",
        'main.mjs': connected + goesOn,
      });
      const { code, stdout, stderr } = await runApp({
        ...{
          node: tested.node,
          cwd: folder,
          args: ['--import', 'svc/register', 'main.mjs'],
          timeoutMs: 30_000,
        },
        env: {
          DATABASE: database,
          SVC_OUTBOX_DATASOURCE_URL: database.replace(/@[^/]+/, `@${silent.address}`),
        },
      });
      assert.deepEqual({ code, stdout }, { code: 0, stdout: 'placed,failed\n' }, stderr);
    });
  });
