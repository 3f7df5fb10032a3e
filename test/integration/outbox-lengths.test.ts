import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import mysql from 'mysql2';
import mysqlPromise from 'mysql2/promise';
import { loadConfig } from '../../src/config/read/load.ts';
import type { OutboxEvent } from '../../src/outbox/api/outbox-event.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { type Service, start } from '../../src/start/start.ts';
import { startMariadb } from '../support/mariadb.ts';
import { requiring } from '../support/requires.ts';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

requiring('mariadb', 'an event with a long text in a MariaDB that cuts what is too long', function () {
  this.timeout(30_000);
  let folder: string;
  let service: Service;
  let connection: mysqlPromise.Connection;
  let url: string;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-lengths-'));
    url = await (await startMariadb()).freshDatabase();
    const { config, problems } = loadConfig({
      env: {},
      cwd: folder,
      code: {
        svc: {
          broker: { client: 'memory', topic: 'orders' },
          outbox: {
            ...{ enabled: true, publisherEnabled: false, initializeSchema: 'always' },
            datasource: { url },
          },
        },
        management: { endpoints: { web: { exposure: { include: [] } } } },
      },
    });
    assert.deepEqual(problems, []);
    service = start(config, quiet);
    service.outbox?.watch(mysql);
    const store = openOutboxStore({ url, table: 'svc_outbox_events', initializeSchema: 'always' });
    await store.prepare();
    await store.close(1_000);
    connection = await mysqlPromise.createConnection(url);
    await connection.query("SET SESSION sql_mode = ''");
    await connection.query('CREATE TABLE orders (id varchar(99) PRIMARY KEY)');
  });
  after(async () => {
    await connection?.end();
    await service?.stop(2_000);
    rmSync(folder, { recursive: true, force: true });
  });

  async function order(id: string, rest: Partial<OutboxEvent>): Promise<string> {
    await connection.query('BEGIN');
    await connection.query('INSERT INTO orders VALUES (?)', [id]);
    const event = { eventType: 'ORDERED', aggregateType: 'Order', aggregateId: id, payload: { id }, ...rest };
    // What the application swallows must not be committed either.
    await service.outbox?.save(connection, [event]).catch(() => {});
    return connection.query('COMMIT').then(
      () => 'committed',
      async (error: { code: string }) => {
        await connection.query('ROLLBACK');
        return error.code;
      },
    );
  }
  const rows = async (text: string): Promise<object[]> => (await connection.query(text))[0] as object[];

  it('cuts, unless svc refuses', async () => {
    await connection.query('CREATE TABLE short (name text NOT NULL)');
    await connection.query('INSERT INTO short VALUES (?)', ['x'.repeat(65_536)]);
    assert.deepEqual(await rows('SELECT LENGTH(name) AS bytes FROM short'), [{ bytes: 65_535 }]);
  });

  it('is stored whole, or its transaction does not commit', async () => {
    const most = 'x'.repeat(65_535);
    const ends = {
      key: await order('key', { key: most }),
      type: await order('type', { eventType: most }),
      longKey: await order('longKey', { key: `${most}x` }),
      longType: await order('longType', { eventType: `${most}x` }),
      longAggregate: await order('longAggregate', { aggregateId: `${most}x` }),
      longAggregateType: await order('longAggregateType', { aggregateType: `${most}x` }),
    };
    const refused = 'SVC_OUTBOX_TOO_LONG';
    assert.deepEqual(ends, {
      ...{ key: 'committed', type: 'committed' },
      ...{ longKey: refused, longType: refused, longAggregate: refused, longAggregateType: refused },
    });
    assert.deepEqual(await rows('SELECT id FROM orders ORDER BY id'), [{ id: 'key' }, { id: 'type' }]);
    assert.deepEqual(
      await rows(
        'SELECT aggregate_id AS id, LENGTH(record_key) AS k, LENGTH(event_type) AS t FROM svc_outbox_events ORDER BY 1',
      ),
      [
        { id: 'key', k: 65_535, t: 7 },
        { id: 'type', k: 4, t: 65_535 },
      ],
    );
  });
});
