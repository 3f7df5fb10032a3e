import type { Socket } from 'node:net';
import pg from 'pg';
import { pgDriver } from '../../src/adapters/postgres/pg-driver.ts';
import { createPostgresStore } from '../../src/adapters/postgres/postgres-store.ts';
import { startOwnWork } from '../../src/ground/lifecycle.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { patchDriver } from './captured.ts';
import { type DriverUnderTest, type TestConnection, testDriver } from './driver.ts';
import { tellViews, testPrograms } from './programs.ts';
import { testUndone } from './undone.ts';
import { testUndoneAtRandom } from './undone-at-random.ts';

type Style = (connectionString: string) => Promise<TestConnection>;

function inStyle(
  client: pg.ClientBase,
  run: (text: string) => unknown,
  close: () => unknown,
): TestConnection {
  const inner = client as unknown as { processID: number; connection: { stream: Socket } };
  client.on('error', () => {});
  return {
    begin: () => run('BEGIN'),
    commit: () => run('COMMIT'),
    rollback: () => run('ROLLBACK'),
    run,
    callback: (text, done) => client.query(text, done),
    close,
    id: () => inner.processID,
    cutOff: () => void inner.connection.stream.destroy(),
  };
}

const styles: Readonly<Record<string, Style>> = {
  async 'a client'(connectionString) {
    const client = new pg.Client({ connectionString });
    await client.connect();
    return inStyle(
      client,
      (text) => client.query(text),
      () => client.end(),
    );
  },
  async 'with callbacks'(connectionString) {
    const client = new pg.Client({ connectionString });
    await client.connect();
    const run = (text: string): Promise<void> =>
      new Promise((resolve, reject) => {
        client.query({ text }, (error) => (error ? reject(error) : resolve()));
      });
    return inStyle(client, run, () => client.end());
  },
  async 'from a pool, prepared'(connectionString) {
    const pool = new pg.Pool({ connectionString, max: 1 });
    const client = await pool.connect();
    const run = (text: string) =>
      text.includes(';') ? client.query(text) : client.query({ text, values: [], name: text.slice(0, 60) });
    return inStyle(client, run, async () => {
      client.release();
      await pool.end();
    });
  },
};

requiring('postgres', 'the driver pg', function () {
  this.timeout(30_000);
  let url: string;
  let observer: pg.Client;

  before(async () => {
    patchDriver(pgDriver, pg);
    url = await (await startPostgres()).freshDatabase();
    observer = new pg.Client({ connectionString: url });
    await observer.connect();
    const text =
      "CREATE TABLE orders (id text PRIMARY KEY); CREATE TABLE events (id text PRIMARY KEY); CREATE TABLE parents (id text PRIMARY KEY); CREATE TABLE children (parent text REFERENCES parents DEFERRABLE INITIALLY DEFERRED); CREATE FUNCTION create_order(n text) RETURNS text LANGUAGE sql AS $$INSERT INTO orders VALUES (n) RETURNING id$$; CREATE VIEW placed AS SELECT create_order(current_setting('shop.order')) AS id; CREATE VIEW placed_again AS SELECT id FROM placed";
    await startOwnWork(() => observer.query(text));
    await tellViews('postgres', createPostgresStore({ url, table: 'none', initializeSchema: 'never' }));
  });
  after(() => observer?.end());

  for (const [style, connect] of Object.entries(styles)) {
    describe(style, () => {
      const driver: DriverUnderTest = {
        isSync: false,
        holdsRows: true,
        hasCallbacks: true,
        connect: () => connect(url),
        kill: (id) => startOwnWork(() => observer.query('SELECT pg_terminate_backend($1)', [id])),
        async ids(table) {
          const { rows } = await startOwnWork(() =>
            observer.query<{ id: string }>(`SELECT id FROM ${table}`),
          );
          return rows.map(({ id }) => id);
        },
        spellings: {
          begin: [
            'begin',
            'START TRANSACTION ISOLATION LEVEL SERIALIZABLE',
            '/* a */ Begin',
            '-- it\nbegin work;',
          ],
          commit: [
            'commit',
            'COMMIT WORK',
            'end',
            '/* a */ End Transaction',
            '-- it\ncommit',
            'commit and no chain;',
          ],
          rollback: ['rollback', 'abort', 'ROLLBACK TRANSACTION', '/* a */ rollback;'],
        },
        chain: 'COMMIT AND CHAIN',
      };
      testDriver(() => driver);
      if (style === 'a client') {
        describe('what is undone', () => testUndone(() => driver));
        describe('at random', () => testUndoneAtRandom(() => driver, false));
        describe('programs', () =>
          testPrograms(() => driver, {
            callOf: (id) => `SELECT create_order('${id}')`,
            viewOf: (id) => [`SELECT set_config('shop.order', '${id}', false)`, 'SELECT * FROM placed_again'],
            dooms: "INSERT INTO children VALUES ('nobody')",
          }));
      }
    });
  }
});
