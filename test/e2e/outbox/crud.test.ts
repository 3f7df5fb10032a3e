import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { ddl } from '../../../src/adapters/sql/schema.ts';
import { installPacked } from '../../support/packed.ts';
import { startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
import { freshFolder, runApp, writeFiles } from '../support/run-app.ts';
import { subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';
import { type CrudOrm, crudOrms, main, tables } from './crud.ts';

const tested = await subject();

interface Stored {
  readonly event_type: string;
  readonly aggregate_id: string;
  readonly note: string | null;
  /** Written by the transaction that wrote the order as it is now. */
  readonly is_with_order: boolean | null;
}

interface Done {
  readonly ends: Readonly<Record<string, unknown>>;
  readonly events: readonly Stored[];
  readonly notes: readonly string[];
  readonly stderr: string;
}

const stored = `SELECT event_type, aggregate_id, convert_from(payload, 'UTF8')::json -> 'payload' ->> 'note' AS note,
  sales.xmin::text = events.xmin::text AS is_with_order
  FROM svc_outbox_events AS events LEFT JOIN sales ON sales.id::text = aggregate_id ORDER BY events.id`;
const refuse =
  "ALTER TABLE svc_outbox_events ADD CONSTRAINT refused CHECK (position('refused' in convert_from(payload, 'UTF8')) = 0)";

async function run(orm: CrudOrm, result: object, onNoTransaction: string): Promise<Done> {
  const { freshDatabase, query } = await startPostgres();
  const database = await freshDatabase();
  for (const text of [...tables, ...ddl('postgres', 'svc_outbox_events').split(';\n\n'), refuse])
    await query(database, text.replace(/;\s*$/, ''));
  const folder = freshFolder(installPacked(`outbox-${orm.id}`, orm.dependencies), 'crud');
  const outbox = { aggregateType: 'order', aggregateId: '#result.id', ...result };
  const targets = ['create', 'change', 'remove'].map((name) => ({
    ...{ module: './orders.mjs', function: name, eventType: name, outbox },
    payload: '{ note: #result.note }',
  }));
  const settings = { 'publisher-enabled': false, 'on-no-transaction': onNoTransaction };
  const config = configOf(targets, {
    outbox: { enabled: true, 'initialize-schema': 'never', ...settings },
  });
  writeFiles(folder, {
    'orders.mjs': orm.orders,
    'main.mjs': main,
    'svc.config.json': JSON.stringify(config),
    'package.json': '{ "name": "shop", "type": "module" }',
    ...(orm.build && { 'build.mjs': orm.build }),
    ...orm.files,
  });
  if (orm.build !== undefined)
    execFileSync(process.execPath, ['build.mjs'], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
  const env = { DATABASE: database, SVC_OUTBOX_DATASOURCE_URL: database };
  const args = ['--import', 'svc/register', 'main.mjs'];
  const { code, stdout, stderr } = await runApp({ node: tested.node, cwd: folder, args, env });
  assert.equal(code, 0, stderr);
  return {
    ends: JSON.parse(stdout),
    events: (await query(database, stored)) as unknown as readonly Stored[],
    notes: (await query(database, 'SELECT note FROM sales ORDER BY note')).map(({ note }) => String(note)),
    stderr,
  };
}

for (const orm of crudOrms.filter(({ hasTypes }) => !hasTypes || tested.stripsTypes)) {
  requiring('postgres', `outbox: CRUD that opens its own transactions: ${orm.title}`, function suite() {
    this.timeout(300_000);
    const others = ['eight-0', 'eight-2', 'eight-4', 'eight-6', 'eight-same'];

    describe('with result: transaction', () => {
      let done: Done;
      before(async () => {
        done = await run(orm, { result: 'transaction' }, 'error');
        if (process.env.SHOW) console.log(done);
      });

      it('gives the application what it gives without svc', () => {
        const { created, changed, removed } = done.ends;
        assert.deepEqual(
          [created, changed, removed],
          [{ id: 1, note: 'first', lines: 2 }, { note: 'second' }, { id: 1 }],
        );
      });

      it('has the event of what was written, in its transaction and with the generated id', () => {
        const told = done.events.map(({ event_type, note }) => `${event_type} ${note}`);
        const ofOthers = others.map((note) => `create ${note}`);
        assert.deepEqual(told.slice(0, 2), ['create first', 'change second']);
        assert.deepEqual(told.slice(2, -1).sort(), ofOthers);
        assert.match(told.at(-1) ?? '', /^remove /);
        assert.equal(done.events[0]?.aggregate_id, '1');
        for (const { note, is_with_order } of done.events)
          if (note?.startsWith('eight')) assert.equal(is_with_order, true, note);
      });

      it('has none of what the database or svc has refused, and neither has the application', () => {
        assert.match(String(done.ends.taken), /unique|duplicate/i);
        assert.match(String(done.ends.refused), /could not be stored in the outbox/);
        for (const note of ['refused', 'first']) assert.equal(done.notes.includes(note), false);
        assert.equal(done.events.length, 8);
      });
    });

    describe('with on-no-transaction: autocommit', () => {
      it('has the event of each call that came to its end', async () => {
        const { events, ends } = await run(orm, {}, 'autocommit');
        const told = events.map(({ event_type, note }) => `${event_type} ${note}`);
        assert.deepEqual(told.slice(0, 2), ['create first', 'change second']);
        assert.deepEqual(told.slice(2, -1).sort(), others.map((note) => `create ${note}`).sort());
        assert.equal(events.length, 8);
        assert.match(String(ends.refused), /^SVC_OUTBOX_STATEMENT /);
      });
    });

    describe('with neither', () => {
      it('fails, and says what to set', async () => {
        const { ends, events, notes } = await run(orm, {}, 'error');
        assert.match(String(ends.created), /SVC_CAPTURE_RESULT_UNKNOWN .*set outbox\.result: transaction/s);
        assert.deepEqual([events, notes], [[], []]);
      });
    });
  });
}
