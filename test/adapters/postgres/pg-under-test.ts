import assert from 'node:assert/strict';
import pg from 'pg';
import { pgDriver } from '../../../src/adapters/postgres/pg-driver.ts';
import { startOwnWork } from '../../../src/ground/lifecycle.ts';
import { alarms, Captures, patchDriver } from '../../contract/captured.ts';
import { startPostgres } from '../../support/postgres.ts';

/** `pg` as an application has it, with empty tables `orders` and `events`, and a connection beside it that svc does not see. */
export interface PgUnderTest {
  readonly url: string;
  readonly captures: Captures;
  /** As at the beginning of a test. */
  renew(): Captures;
  outside(text: string): Promise<pg.QueryResult<{ id: string }>>;
  connect(config?: object, Client?: typeof pg.Client): Promise<pg.Client>;
  ids(table: 'orders' | 'events'): Promise<string[]>;
  /** A function of the application that writes an order, and whose event has its id. */
  write(client: pg.Client, id: string): Promise<void>;
}

/** Call it inside a suite that requires PostgreSQL. */
export function usePg(): PgUnderTest {
  let url: string;
  let observer: pg.Client;
  let captures: Captures;
  let alarmsBefore: number;
  const opened: pg.Client[] = [];
  const outside = (text: string) => startOwnWork(() => observer.query<{ id: string }>(text));

  before(async () => {
    patchDriver(pgDriver, pg);
    url = await (await startPostgres()).freshDatabase();
    observer = new pg.Client({ connectionString: url });
    await observer.connect();
    await outside('CREATE TABLE orders (id text PRIMARY KEY); CREATE TABLE events (id text PRIMARY KEY)');
  });
  after(() => observer?.end());
  beforeEach(async () => {
    captures = new Captures();
    alarmsBefore = alarms.ungated;
    await outside('TRUNCATE orders, events CASCADE');
  });
  afterEach(async () => {
    for (const client of opened.splice(0)) await client.end().catch(() => {});
    assert.equal(alarms.ungated, alarmsBefore);
  });

  return {
    get url() {
      return url;
    },
    get captures() {
      return captures;
    },
    renew() {
      captures = new Captures();
      return captures;
    },
    outside,
    async connect(config = {}, Client = pg.Client) {
      const client = new Client({ connectionString: url, ...config });
      client.on('error', () => {});
      await client.connect();
      opened.push(client);
      return client;
    },
    async ids(table) {
      return (await outside(`SELECT id FROM ${table} ORDER BY id`)).rows.map(({ id }) => id);
    },
    write: (client, id) =>
      captures.call(id, async () => void (await client.query('INSERT INTO orders VALUES ($1)', [id]))),
  };
}
