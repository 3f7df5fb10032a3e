import type { Files } from '../support/run-app.ts';
import { applicationOf, connectOf, extensions } from './application.ts';
import type { Library } from './library.ts';

/** What the application says at its end. */
export interface ProgramsEnd {
  readonly programs: number;
  readonly seed: number;
  readonly seen: Readonly<Record<string, number>>;
  /** The first of them, as JSON. */
  readonly failures: readonly string[];
}

/**
 * Generated handlers of an inbox, over a library: `node main.mjs <programs> <seed>`. Each handles an event of its own: it writes, undoes a
 * part, goes on after a statement that has failed, ends its transaction itself, throws, or loses its connection right before the COMMIT
 * or right behind it. What the inbox says and remembers is compared with the rows that are there; then the event comes again, twice.
 */
const main = (extension: string): string => `
import { connect as connectTo, createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { outbox } from 'svc';
import { createInbox } from 'svc/consumer';
import { connect, made } from './connect.mjs';

const [programs, seed, server, runsSvc] = [Number(process.argv[2]), Number(process.argv[3]), process.argv[4], process.argv[5] === 'svc'];
const direct = await connect();
if (runsSvc)
  for (let tries = 0; Number((await direct.query(made))[0].count) < 2; tries++) {
    if (tries > 1000) throw new Error('svc made no table');
    await pause(10);
  }
await direct.query('CREATE TABLE orders (id varchar(64) PRIMARY KEY)');
await direct.query("INSERT INTO orders (id) VALUES ('taken')");

/** The next COMMIT is not sent, or its answer never comes. */
let loses;
if (server !== 'sqlite') {
  const { hostname, port } = new URL(process.env.DATABASE);
  const proxy = createServer((near) => {
    const far = connectTo(Number(port), hostname);
    let isMute = false;
    const end = () => { near.destroy(); far.destroy(); };
    near.on('data', (data) => {
      if (loses !== undefined && /commit/i.test(data.toString('latin1'))) {
        const how = loses;
        loses = undefined;
        if (how === 'before') return end();
        isMute = true;
      }
      far.write(data);
    });
    far.on('data', (data) => { if (isMute) end(); else near.write(data); });
    for (const each of [near, far]) each.on('error', end).on('close', end);
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  proxy.unref();
  const url = new URL(process.env.DATABASE);
  url.hostname = '127.0.0.1';
  url.port = String(proxy.address().port);
  process.env.DATABASE = url.href;
}
// Some libraries have no listener on a connection that is in use.
process.on('uncaughtException', (error) => { seen.uncaught = (seen.uncaught ?? 0) + 1; if (process.env.SHOW) console.error(error); });

const module = await import('./database.${extension}');
const db = 'transaction' in module ? module : module.default;
const pool = await db.dataSource();
const inbox = createInbox({ pool, consumer: 'shop' });
await inbox.migrate();

/** mulberry32 */
let state = seed;
function below(limit) {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
}
const oneOf = (all) => all[below(all.length)];

/** A statement as it is, in the transaction. */
async function raw(tx, text) {
  if (typeof tx === 'function') return tx.raw(text);
  if (tx.executeQuery) {
    const query = { kind: 'RawNode', sqlFragments: [text], parameters: [] };
    return tx.executeQuery({ sql: text, parameters: [], query, queryId: { queryId: 'raw' } });
  }
  if (tx.session && tx.dialect) return raw(tx.session.client, text);
  if (tx.sequelize) return tx.sequelize.query(text, { transaction: tx });
  if (tx.$executeRawUnsafe) return tx.$executeRawUnsafe(text);
  if (tx.getTransactionContext) return tx.execute(text, [], 'run');
  if (tx.exec) return tx.exec(text);
  if (tx.promise) return tx.promise().query(text);
  return tx.query(text);
}

const steps = ['insert', 'insert', 'failing', 'failing in savepoint', 'undone', 'kept in savepoint', ...(runsSvc ? ['save'] : [])];
const ends = [
  ...['return', 'return', 'return', 'throw', 'rollback', 'commit', 'commit and throw'],
  ...(server === 'sqlite' ? [] : ['lost before', 'lost after']),
  ...(server === 'mysql' || server === 'mariadb' ? ['ddl', 'ddl and throw'] : []),
];
let lost = 0;
const seen = {};
const failures = [];

async function program(number) {
  const given = { number, steps: Array.from({ length: below(5) }, () => oneOf(steps)), end: oneOf(ends) };
  // MikroORM 7.2 never gives a connection back that is lost at its COMMIT: its pool has twelve.
  if (given.end.startsWith('lost') && ++lost > 10) given.end = 'return';
  if (process.env.SHOW) console.error(JSON.stringify(given));
  const eventId = 'e' + number;
  let [rows, events] = [[], []];
  let isDoomed = false;
  let count = 0;
  const thrown = new Error('thrown by the handler');
  const nextId = () => eventId + '.' + ++count;

  async function step(kind, tx) {
    const id = nextId();
    if (kind === 'insert') {
      await db.insert(tx, id);
      if (!isDoomed) rows.push(id);
    } else if (kind === 'save') {
      await outbox.save(tx, { eventType: 'saved', aggregateType: 'order', aggregateId: id, payload: { id } });
      if (!isDoomed) events.push(id);
    } else if (kind === 'failing') {
      if (server === 'postgres') isDoomed = true;
      await db.insert(tx, 'taken');
      // TypeORM rolls all back where the SAVEPOINT itself fails, and what the handler sends next is in no transaction.
    } else if (isDoomed) return;
    else if (kind === 'failing in savepoint') await db.nested(tx, (inner) => db.insert(inner, 'taken'));
    else if (kind === 'undone') await db.nested(tx, async (inner) => { await db.insert(inner, id); throw thrown; });
    else {
      await db.nested(tx, (inner) => db.insert(inner, id));
      if (!isDoomed) rows.push(id);
    }
  }

  const { end } = given;
  const attempt = inbox.once({ eventId }, async (tx) => {
    for (const kind of given.steps) await step(kind, tx).catch((error) => { if (process.env.SHOW) console.error(kind, error.message); });
    if (end === 'rollback') await raw(tx, 'ROLLBACK');
    if (end.startsWith('commit')) await raw(tx, 'COMMIT');
    if (end.startsWith('ddl')) await raw(tx, 'CREATE TABLE ddl_' + number + ' (id int)');
    if (end.endsWith('throw')) throw thrown;
    if (end.startsWith('lost')) loses = end.slice(5);
  });
  const late = pause(10_000, 'never ends', { ref: false });
  const result = await Promise.race([late, attempt.then(({ handled }) => (handled ? 'handled' : 'not handled'), (error) => error)]);
  loses = undefined;

  const stands = !isDoomed && !['throw', 'rollback', 'lost before'].includes(end);
  const isRecorded = stands && !end.endsWith('throw');
  if (!stands) [rows, events] = [[], []];
  const found = await read(eventId);
  const wrong = [];
  const expect = (what, actual, expected) => {
    if (String(actual) !== String(expected)) wrong.push(what + ': ' + actual + ', not ' + expected);
  };
  expect('recorded', found.recorded, isRecorded ? 1 : 0);
  expect('rows', found.rows, rows);
  expect('events', found.events, events);
  if (result === 'handled' && !isRecorded) wrong.push('it says handled');
  if (result === 'not handled' || result === 'never ends') wrong.push('it says ' + result);
  if (end === 'return' && isRecorded && result !== 'handled') wrong.push('it rejects: ' + result);
  if (end === 'throw' && result !== thrown) wrong.push('it rejects with another error: ' + result);
  seen[result === 'handled' ? result : 'rejected'] = (seen[result === 'handled' ? result : 'rejected'] ?? 0) + 1;
  seen[end] = (seen[end] ?? 0) + 1;

  // The event comes again, as long as its offset is not committed.
  for (const expected of [isRecorded ? 'false' : 'true', 'false']) {
    let again;
    for (let tries = 0; tries < 5; tries++) {
      again = await inbox.once({ eventId }, (tx) => db.insert(tx, eventId + '.again')).then(({ handled }) => String(handled), (error) => error);
      // A pool may hand out the connection that is lost.
      if (!(again instanceof Error) || !end.startsWith('lost')) break;
      await pause(20);
    }
    expect('again', again, expected);
  }
  const after = await read(eventId);
  expect('recorded in the end', after.recorded, 1);
  expect('rows in the end', after.rows, [...rows, ...(isRecorded ? [] : [eventId + '.again'])]);
  if (wrong.length > 0) failures.push(JSON.stringify({ ...given, result: String(result?.stack ?? result).slice(0, 800), wrong }));
}

async function read(eventId) {
  const where = (column) => "SELECT " + column + " AS id FROM ";
  const ids = async (sql) => (await direct.query(sql)).map(({ id }) => id);
  const [recorded, rows, events] = [
    await ids(where('event_id') + "svc_inbox_events WHERE event_id = '" + eventId + "'"),
    await ids(where('id') + "orders WHERE id LIKE '" + eventId + ".%' ORDER BY id"),
    runsSvc ? await ids(where('aggregate_id') + "svc_outbox_events WHERE aggregate_id LIKE '" + eventId + ".%' ORDER BY aggregate_id") : [],
  ];
  return { recorded: recorded.length, rows, events };
}

for (let number = 1; number <= programs && failures.length < 5; number++) await program(number);
console.log(JSON.stringify({ programs, seed, seen, failures }));
await Promise.race([db.close(), pause(2_000)]);
process.exit(0);
`;

/** Its entry is `main.mjs`, whatever form the library is in. */
export function inboxApplicationOf(library: Library): Files {
  const extension = extensions[library.form];
  const { 'package.json': manifest = '', ...all } = applicationOf(library);
  const outbox = {
    ...{ enabled: true, 'initialize-schema': 'always', 'publisher-enabled': false },
    'on-no-transaction': 'error',
  };
  const svc = { service: { name: 'shop' }, broker: { client: 'file', topic: 'shop' }, outbox };
  return {
    ...Object.fromEntries(Object.entries(all).filter(([name]) => !/^(?:main|orders|connect)\./.test(name))),
    'connect.mjs': connectOf(library),
    'main.mjs': main(extension),
    'package.json': manifest,
    'svc.config.json': JSON.stringify({ svc }),
  };
}
