import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { requiring } from '../../support/requires.ts';
import { freshFolder, runApp, writeFiles } from '../support/run-app.ts';
import { applicationOf, entryOf } from './application.ts';
import { libraries } from './libraries.ts';
import type { Library } from './library.ts';
import { applicationFor, placeFor, runs, tested } from './run-library.ts';
import { transactionCases } from './transaction-cases.ts';

/** What the database has of one business row and its event. `both`: written by one transaction, by its savepoint where there is one. */
type Found = 'both' | 'row alone' | 'event alone' | 'apart' | 'more than once';

interface Row {
  readonly id: string;
  readonly found: Found;
}

interface End {
  /** Per case `done`, or the error and what caused it. */
  readonly ends: Readonly<Record<string, string>>;
  readonly found: Readonly<Record<string, Found>>;
  readonly stderr: string;
}

/** Only PostgreSQL tells by which transaction a row was written. */
const joined = {
  postgres: `SELECT coalesce(orders.id, events.aggregate_id) AS id, CASE
      WHEN orders.id IS NULL THEN 'event alone'
      WHEN events.aggregate_id IS NULL THEN 'row alone'
      WHEN orders.xmin::text = events.xmin::text THEN 'both'
      ELSE 'apart' END AS found
    FROM orders FULL JOIN svc_outbox_events AS events ON events.aggregate_id = orders.id`,
  others: `SELECT orders.id AS id, CASE WHEN events.id IS NULL THEN 'row alone' ELSE 'both' END AS found
    FROM orders LEFT JOIN svc_outbox_events AS events ON events.aggregate_id = orders.id
    UNION ALL SELECT events.aggregate_id, 'event alone'
    FROM svc_outbox_events AS events LEFT JOIN orders ON events.aggregate_id = orders.id WHERE orders.id IS NULL`,
};
function casesOf({ hasNoBegin, hasNoCallbackResult, hasOneConnection }: Library) {
  return transactionCases.filter(
    ({ needs }) =>
      !(needs === 'begin' && hasNoBegin) &&
      !(needs === 'callback result' && hasNoCallbackResult) &&
      !(needs === 'several connections' && hasOneConnection),
  );
}

function foundIn(rows: readonly Row[]): Record<string, Found> {
  const all: Record<string, Found> = {};
  for (const { id, found } of rows) all[id] = id in all ? 'more than once' : found;
  return all;
}

async function runLibrary(library: Library): Promise<End> {
  const folder = freshFolder(applicationFor(library), library.id);
  const { database, datasource, ask } = await placeFor(library, folder);
  const read = () => ask(library.server === undefined ? joined.postgres : joined.others);
  writeFiles(folder, applicationOf(library));
  if (library.build !== undefined)
    execFileSync(process.execPath, ['build.mjs'], {
      cwd: folder,
      timeout: 120_000,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  const args = ['--import', 'svc/register', entryOf(library), ...casesOf(library).map(({ id }) => id)];
  const env = { DATABASE: database, SVC_OUTBOX_DATASOURCE_URL: datasource };
  const { code, stdout, stderr } = await runApp({
    node: tested.node,
    cwd: folder,
    args,
    env,
    timeoutMs: 20_000,
  });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  assert.notEqual(stdout, '', `it ended without a result. ${stderr}`);
  return {
    ends: JSON.parse(stdout),
    found: foundIn((await read()) as readonly Row[]),
    stderr,
  };
}

for (const library of libraries.filter(runs)) {
  const { server = 'postgres' } = library;
  const title = `outbox: ${library.title} [${library.id}]`;
  const define = server === 'sqlite' ? describe : requiring.bind(undefined, server);
  define(title, function suite() {
    this.timeout(300_000);
    let end: End;

    before(async () => {
      end = await runLibrary(library);
      if (process.env.SHOW) console.log(end.ends, end.stderr);
    });

    for (const { id, title, rows, error } of casesOf(library)) {
      it(`${title} [${id}]`, () => {
        const own = new RegExp(`^${id}(-refused)?-\\d+$`);
        const found = Object.fromEntries(Object.entries(end.found).filter(([row]) => own.test(row)));
        assert.deepEqual(found, rows, end.ends[id]);
        assert.match(end.ends[id] ?? '', error ?? /^done$/);
      });
    }

    it('nothing but what the cases wrote', () => {
      const expected = casesOf(library).flatMap(({ rows }) => Object.keys(rows));
      assert.deepEqual(Object.keys(end.found).sort(), expected.sort());
    });
  });
}
