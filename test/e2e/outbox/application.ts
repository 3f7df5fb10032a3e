import type { Files } from '../support/run-app.ts';
import type { Library } from './library.ts';

const orders = `
import { outbox, publishEvent } from 'svc';
import * as db from './database';

export async function place(tx, id) {
  await db.insert(tx, id);
  return { id };
}

export async function placeTwo(tx, id, second) {
  await place(tx, second);
  await db.insert(tx, id);
  return { id };
}

export const slow = { written: Promise.withResolvers(), end: Promise.withResolvers() };
export async function placeSlowly(tx, id) {
  await db.insert(tx, id);
  slow.written.resolve();
  await slow.end.promise;
  return { id };
}

/** Sends nothing itself. */
export async function announce(tx, id) {
  await null;
  return { id };
}

export async function placeOwn(id, fails) {
  return db.transaction(async (tx) => {
    await db.insert(tx, id);
    if (fails) throw new Error('thrown by the application');
    return { id };
  });
}

export const placeOwnByFunctions = publishEvent(
  {
    eventType: 'placeOwnByFunctions', payload: ({ args }) => ({ id: args[0] }),
    outbox: { aggregateType: 'order', aggregateId: ({ args }) => args[0] },
  },
  async (id) => db.transaction(async (tx) => {
    await db.insert(tx, id);
    return { id };
  }),
);

export async function placeOwnResult(id) {
  const { row } = await db.transaction(async (tx) => {
    await db.insert(tx, id);
    return { id, row: 1 };
  });
  return row;
}

/** Its event is of what it returns, and nothing is said of \`transaction()\`. */
export async function placeOpened(id, fails) {
  return outbox.runInTransaction(await db.dataSource(), async (tx) => {
    await db.insert(tx, id);
    if (fails) throw new Error('thrown by the application');
    return { id };
  });
}

export async function placeByHand(id, fails) {
  const { tx, commit, rollback } = await db.begin();
  await db.insert(tx, id);
  await (fails ? rollback() : commit());
  if (fails) throw new Error('thrown by the application');
  return { id };
}
`;

const main = `
import { setTimeout as pause } from 'node:timers/promises';
import * as db from './database';
import { outbox } from 'svc';
import { createInbox } from 'svc/consumer';
import { connect, made, refuse } from './connect';
import { announce, place, placeByHand, placeOpened, placeOwn, placeOwnByFunctions, placeOwnResult, placeSlowly, placeTwo, slow } from './orders';

const eight = [0, 1, 2, 3, 4, 5, 6, 7];
const fail = () => { throw new Error('thrown by the application'); };
/** Each from a moment of its own, so that the transactions overlap. */
const settled = (work) => Promise.allSettled(eight.map(async (n) => { await pause(n % 3); return work(n); }));

const cases = {
  commit: () => db.transaction((tx) => place(tx, 'commit-1')),
  rollback: () => db.transaction(async (tx) => { await place(tx, 'rollback-1'); fail(); }),
  nested: () => db.transaction((tx) => placeTwo(tx, 'nested-1', 'nested-2')),
  async sequence() {
    await db.transaction((tx) => place(tx, 'sequence-1'));
    await db.transaction((tx) => place(tx, 'sequence-2'));
  },
  savepoint: () => db.transaction(async (tx) => {
    await place(tx, 'savepoint-1');
    await db.nested(tx, async (inner) => { await place(inner, 'savepoint-2'); fail(); }).catch(() => {});
    await place(tx, 'savepoint-3');
    await db.nested(tx, (inner) => place(inner, 'savepoint-4'));
  }),
  /** What the function wrote is gone when it ends. */
  'savepoint-late': () => db.transaction(async (tx) => {
    await place(tx, 'savepoint-late-1');
    let late;
    await db.nested(tx, async (inner) => {
      late = placeSlowly(inner, 'savepoint-late-2');
      await slow.written.promise;
      fail();
    }).catch(() => {});
    slow.end.resolve();
    await late;
    await place(tx, 'savepoint-late-3');
  }),
  parallel: () => settled((n) => db.transaction(async (tx) => {
    await place(tx, 'parallel-' + n);
    await pause(5);
    if (n % 2) fail();
  })),
  silent: () => db.transaction(async (tx) => { await db.insert(tx, 'silent-1'); await announce(tx, 'silent-1'); }),
  'silent-first': () => db.transaction(async (tx) => {
    await announce(tx, 'silent-first-1');
    await db.insert(tx, 'silent-first-1');
  }),
  'parallel-silent': () => settled((n) => db.transaction(async (tx) => {
    await db.insert(tx, 'parallel-silent-' + n);
    await pause(5 - (n % 4));
    await announce(tx, 'parallel-silent-' + n);
    await pause(3);
    if (n % 2) fail();
  })),
  outside: () => place(undefined, 'outside-1'),
  beside: () => db.transaction(async (tx) => {
    await place(tx, 'beside-1');
    await place(undefined, 'beside-2').catch(() => {});
  }),
  own: () => placeOwn('own-1'),
  'own-functions': () => placeOwnByFunctions('own-functions-1'),
  'own-result': () => placeOwnResult('own-result-1'),
  'own-rollback': () => placeOwn('own-rollback-1', true),
  'own-refused': () => placeOwn('own-refused-1'),
  'own-parallel': () => settled((n) => placeOwn('own-parallel-' + n, n % 2 === 1)),
  swallowed: () => db.transaction(async (tx) => {
    await db.insert(tx, 'swallowed-1');
    await place(tx, 'swallowed-refused-2').catch(() => {});
  }),
  saved: () => settled((n) => db.transaction(async (tx) => {
    await insertAndSave(tx, 'saved-' + n);
    await pause(3);
    if (n % 2) fail();
  })),
  'saved-savepoint': () => db.transaction(async (tx) => {
    await insertAndSave(tx, 'saved-savepoint-1');
    await db.nested(tx, async (inner) => { await insertAndSave(inner, 'saved-savepoint-2'); fail(); }).catch(() => {});
    await insertAndSave(tx, 'saved-savepoint-3');
  }),
  'saved-refused': () => db.transaction((tx) => insertAndSave(tx, 'saved-refused-1').catch(() => {})),
  named: () => settled((n) => db.transaction((tx) => outbox.withTransaction(tx, async () => {
    await db.insert(tx, 'named-' + n);
    await pause(5 - (n % 4));
    await announce(undefined, 'named-' + n);
    if (n % 2) fail();
  }))),
  opened: () => settled((n) => placeOpened('opened-' + n, n % 2 === 1)),
  'opened-refused': () => placeOpened('opened-refused-1'),
  async inbox() {
    const { once } = await inboxOf();
    expectHandled([await once('inbox-1'), await once('inbox-1')], [true, false]);
    await once('inbox-2', true).then(() => fail(), () => {});
    await once('inbox-3', true).then(() => fail(), () => {});
    expectHandled([await once('inbox-3'), await once('inbox-3')], [true, false]);
  },
  async 'inbox-race'() {
    const { once } = await inboxOf();
    const all = await Promise.all([1, 2, 3].map(() => once('inbox-race-1')));
    expectHandled(all.sort(), [false, false, true]);
  },
  'by-hand': () => placeByHand('by-hand-1'),
  'by-hand-rollback': () => placeByHand('by-hand-rollback-1', true),
};

async function inboxOf() {
  const inbox = createInbox({ pool: await db.dataSource(), consumer: 'shop' });
  await inbox.migrate();
  await inbox.migrate();
  await inbox.check();
  await inbox.cleanup();
  const once = async (eventId, fails) => (await inbox.once({ eventId }, async (tx) => {
    await place(tx, eventId);
    await pause(20);
    if (fails) fail();
  })).handled;
  return { once };
}

function expectHandled(found, expected) {
  if (String(found) !== String(expected)) throw new Error('handled: ' + found);
}

/** Events of the application's own making. */
async function insertAndSave(tx, id) {
  await db.insert(tx, id);
  await outbox.save(tx, { eventType: 'saved', aggregateType: 'order', aggregateId: id, payload: { id } });
}

/** svc makes its table after the start; the database refuses some of its rows. */
async function prepare() {
  const { query, end } = await connect();
  for (let tries = 0; ; tries++) {
    if (tries > 500) throw new Error('svc made no table');
    const [{ count }] = await query(made);
    if (Number(count) === 2) break;
    await pause(10);
  }
  await query(refuse);
  await query('CREATE TABLE orders (id varchar(64) PRIMARY KEY)');
  await end();
}

function describe(error) {
  const messages = [];
  for (let each = error; each && messages.length < 5; each = each.cause) messages.push([each.code, each.message].filter(Boolean).join(': '));
  return messages.join(' <- ');
}

let at = 'prepare';
process.on('exit', () => {
  if (at !== 'end') console.error('the process ended in: ' + at);
});

async function run() {
  await prepare();
  const ends = {};
  for (const name of process.argv.slice(2)) {
    at = name;
    const tooLong = pause(5_000, 'no end after 5 s', { ref: false });
    ends[name] = await Promise.race([tooLong, cases[name]().then(() => 'done', describe)]);
    if (await Promise.race([tooLong, 'in time']) !== 'in time') break;
  }
  at = 'end';
  console.log(JSON.stringify(ends));
  await db.close();
}

void run();
`;

const tables = "('svc_outbox_events_schema', 'svc_outbox_events')";

/** Whether svc has made its tables, and what makes the database refuse some of their rows. */
const onServer = (schema: string): string => `
export const made = "SELECT count(*) AS count FROM information_schema.tables WHERE table_name IN ${tables} AND table_schema = ${schema}";
export const refuse = "ALTER TABLE svc_outbox_events ADD CONSTRAINT refused CHECK (aggregate_id NOT LIKE '%refused%')";
`;

const inFile = `
export const made = "SELECT count(*) AS count FROM sqlite_master WHERE name IN ${tables}";
export const refuse = "CREATE TRIGGER refused BEFORE INSERT ON svc_outbox_events WHEN NEW.aggregate_id LIKE '%refused%' BEGIN SELECT RAISE(ABORT, 'refused'); END";

export async function connect() {
  const db = new Database(process.env.DATABASE, { timeout: 5_000 });
  const query = async (text) => (text.startsWith('SELECT') ? db.prepare(text).all() : db.exec(text));
  return { query, end: async () => db.close() };
}
`;

const onMysql = `
import mysql from 'mysql2/promise';
${onServer('DATABASE()')}
export async function connect() {
  const connection = await mysql.createConnection(process.env.DATABASE);
  return { query: async (text) => (await connection.query(text))[0], end: () => connection.end() };
}
`;

/** A connection beside those of the library. */
const connects = {
  postgres: `
import pg from 'pg';
${onServer("'public'")}
export async function connect() {
  const client = new pg.Client({ connectionString: process.env.DATABASE });
  await client.connect();
  return { query: async (text) => (await client.query(text)).rows, end: () => client.end() };
}
`,
  mariadb: onMysql,
  mysql: onMysql,
  'better-sqlite3': `import Database from 'better-sqlite3';\n${inFile}`,
  'node:sqlite': `import { DatabaseSync as Database } from 'node:sqlite';\n${inFile}`,
} as const;

/** With the driver that the library has: two copies of SQLite in one process undo each other's locks. */
export function connectOf({ server = 'postgres', dependencies }: Library): string {
  if (server !== 'sqlite') return connects[server];
  return connects['better-sqlite3' in dependencies ? 'better-sqlite3' : 'node:sqlite'];
}

export const extensions = { esm: 'mjs', cjs: 'cjs', ts: 'ts' } as const;

/** The application of a library: the same functions and the same cases for all, over the library's own module `database`. */
export function applicationOf(library: Library): Files {
  const { form, database, files = {}, build } = library;
  const extension = extensions[form];
  const asForm = form === 'cjs' ? toCommonJs : withExtension;
  return {
    [`database.${extension}`]: asForm(database, extension),
    [`connect.${extension}`]: asForm(connectOf(library), extension),
    [`orders.${extension}`]: asForm(orders, extension),
    [`main.${extension}`]: asForm(main, extension),
    'package.json': JSON.stringify({ name: 'shop', version: '1.0.0', type: 'module' }),
    'svc.config.json': configuration(`./orders.${extension}`),
    ...(build === undefined ? {} : { 'build.mjs': build }),
    ...files,
  };
}

export const entryOf = ({ form }: Library): string => `main.${extensions[form]}`;

function configuration(module: string): string {
  const target = (name: string, id: string, result: object = {}) => ({
    module,
    function: name,
    payload: `{ id: ${id} }`,
    outbox: { aggregateType: 'order', aggregateId: id, ...result },
  });
  const targets = [
    ...['place', 'placeTwo', 'placeSlowly', 'announce'].map((name) => target(name, '#args[1]')),
    ...['placeOwn', 'placeByHand'].map((name) => target(name, '#args[0]')),
    target('placeOpened', '#result.id'),
    target('placeOwnResult', '#result.id', { result: 'transaction' }),
  ];
  const outbox = {
    ...{ enabled: true, 'initialize-schema': 'always', 'publisher-enabled': false },
    'on-no-transaction': 'error',
  };
  return JSON.stringify(
    { svc: { service: { name: 'shop' }, broker: { client: 'file', topic: 'shop' }, outbox, targets } },
    null,
    1,
  );
}

function withExtension(text: string, extension: string): string {
  return text.replace(/from '(\.\/[^']+)'/g, `from '$1.${extension}'`);
}

function toCommonJs(text: string): string {
  const exported: string[] = [];
  const plain = text
    .replace(/^import \* as (\w+) from '([^']+)';$/gm, "const $1 = require('$2');")
    .replace(/^import \{([^}]+)\} from '([^']+)';$/gm, (_, names: string, from: string) => {
      return `const {${names.replaceAll(' as ', ': ')}} = require('${from}');`;
    })
    .replace(/^import (\w+) from '([^']+)';$/gm, "const $1 = require('$2');")
    .replace(/^export (async function|function|const) (\w+)/gm, (_, kind: string, name: string) => {
      exported.push(name);
      return `${kind} ${name}`;
    })
    .replace(/require\('(\.\/[^']+)'\)/g, "require('$1.cjs')");
  return `${plain}\nObject.assign(exports, { ${exported.join(', ')} });\n`;
}
