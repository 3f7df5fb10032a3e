import assert from 'node:assert/strict';
import { cpSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { plainApp } from '../support/apps.ts';
import { freshFolder, type Run, runApp, writeFiles } from '../support/run-app.ts';
import { subject } from '../support/subject.ts';
import { type CaseTarget, configOf } from '../support/topic-config.ts';

const tested = await subject();

const shop = `
  import { DatabaseSync } from 'node:sqlite';
  const shop = new DatabaseSync('./shop.db');
  shop.exec('CREATE TABLE orders (id TEXT)');
  function order(id) {
    shop.prepare('INSERT INTO orders VALUES (?)').run(id);
    return { id };
  }
  async function within(end, work) {
    shop.exec('BEGIN');
    const result = await work();
    shop.exec(end);
    return result;
  }
`;

const report = `
  console.log(JSON.stringify(shop.prepare('SELECT id FROM orders').all().map(({ id }) => id)));
`;

// Before 22.16 node:sqlite does not tell of transactions; test/adapters/sqlite has what svc says then.
const isFollowed = tested.version !== '22.15.0';

(isFollowed ? describe : () => {})('an application with SQLite', function () {
  this.timeout(60_000);
  let app: string;
  before('npm install', function () {
    this.timeout(180_000);
    app = plainApp();
  });

  const target = { module: './main.mjs', function: 'order', eventType: 'ORDERED' };

  async function run(main: string, targets: CaseTarget[], svc: Record<string, unknown> = {}): Promise<Run> {
    const folder = freshFolder(app, 'outbox-sqlite');
    writeFiles(folder, {
      'package.json': '{ "name": "shop", "type": "module" }',
      'svc.config.json': JSON.stringify(configOf(targets, svc)),
      'main.mjs': shop + main + report,
    });
    const done = await runApp({
      node: tested.node,
      cwd: folder,
      args: ['--import', 'svc/register', 'main.mjs'],
    });
    assert.equal(done.code, 0, done.stderr);
    return done;
  }

  const outcomes = ({ events }: Run): string[] => events.map(({ value }) => value.payload.id);
  const ordersOf = ({ stdout }: Run): string[] => JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '[]');

  it('afterCommit: an event waits for its transaction, and is dropped with it', async () => {
    const done = await run(
      `await within('COMMIT', () => order('kept'));
       await within('ROLLBACK', () => order('dropped'));
       order('alone');`,
      [{ ...target, afterCommit: true }],
    );
    assert.deepEqual(outcomes(done).sort(), ['alone', 'kept']);
    assert.deepEqual(ordersOf(done), ['kept', 'alone']);
  });

  it('afterCommit: nothing is sent before the COMMIT', async () => {
    const done = await run(
      `import { readdirSync } from 'node:fs';
       shop.exec('BEGIN');
       order('kept');
       await new Promise((resolve) => setTimeout(resolve, 400));
       console.log(readdirSync('./svc-topics').length > 0 ? 'early' : 'not yet');
       shop.exec('COMMIT');`,
      [{ ...target, afterCommit: true }],
    );
    assert.match(done.stdout, /^not yet$/m);
    assert.deepEqual(outcomes(done), ['kept']);
  });

  it('outbox: in its very first turn already, and only what is committed', async () => {
    const done = await run(
      `shop.exec('BEGIN');
       order('first');
       shop.exec('COMMIT');
       await within('ROLLBACK', () => order('dropped'));
       await within('COMMIT', () => order('second'));
       try { order('alone'); } catch ({ code }) { console.log(code); }`,
      [{ ...target, outbox: { aggregateType: 'Order', aggregateId: '#result.id' } }],
      { outbox: { enabled: true, datasource: { url: 'sqlite:./shop.db' }, 'on-no-transaction': 'error' } },
    );
    assert.deepEqual(outcomes(done), ['first', 'second']);
    assert.match(done.stdout, /^SVC_OUTBOX_NO_TRANSACTION$/m);
  });

  it('afterCommit in code is refused where no transaction is followed, with what to do', async () => {
    const done = await run(
      `import { publishEvent } from 'svc';
       const declared = publishEvent({ eventType: 'DECLARED', afterCommit: true }, order);
       declared('kept');`,
      [target],
    );
    assert.match(done.stderr, /not captured: afterCommit needs svc\.outbox\.enabled/);
  });

  // TypeScript that Node runs itself.
  const itRuns = tested.stripsTypes ? it : () => {};
  itRuns('examples/shop: an order that is rolled back has no event', async () => {
    const folder = freshFolder(app, 'shop-example');
    cpSync(resolve(import.meta.dirname, '../../../examples/shop'), folder, { recursive: true });
    const done = await runApp({
      node: tested.node,
      cwd: folder,
      args: ['--import', 'svc/register', 'src/main.ts'],
    });
    assert.equal(done.code, 0, done.stderr);
    assert.deepEqual(
      done.events.map(({ topic, key, value }) => [topic, key, value.eventType]),
      [
        ['shop.orders.v1', '1', 'ORDER_PLACED'],
        ['shop.orders.v1', '2', 'ORDER_PLACED'],
        ['shop.stock.v1', 'bicycle', 'STOCK_RESERVED'],
        ['shop.stock.v1', 'helmet', 'STOCK_RESERVED'],
      ],
    );
    const database = new DatabaseSync(join(folder, 'shop.db'));
    const [row] = database
      .prepare("SELECT count(*) AS count FROM svc_outbox_events WHERE status = 'PUBLISHED'")
      .all();
    database.close();
    assert.equal(row?.count, 4);
    assert.doesNotMatch(readFileSync(join(folder, 'src/orders.ts'), 'utf8'), /svc/);
  });
});
