import assert from 'node:assert/strict';
import mysqlPromise from 'mysql2/promise';
import type { OutboxPort } from '../../src/outbox/api/executor.ts';
import type { OutboxEvent } from '../../src/outbox/api/outbox-event.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { startMariadb } from '../support/mariadb.ts';
import { requiring } from '../support/requires.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

requiring('mariadb', 'an event with a long text in a MariaDB that cuts what is too long', function () {
  this.timeout(30_000);
  let svc: StartedSvc;
  let connection: mysqlPromise.Connection;
  let url: string;

  before(async () => {
    url = await (await startMariadb()).freshDatabase();
    svc = startSvc({ client: 'memory' }, { outbox: { publisherEnabled: false, datasource: { url } } });
    const store = openOutboxStore({ url, table: 'svc_outbox_events', initializeSchema: 'always' });
    await store.prepare();
    await store.close(1_000);
    connection = await mysqlPromise.createConnection(url);
    await connection.query("SET SESSION sql_mode = ''");
    await connection.query('CREATE TABLE orders (id varchar(99) PRIMARY KEY)');
  });
  after(async () => {
    await connection?.end();
    await svc?.end();
  });

  async function order(id: string, rest: Partial<OutboxEvent>): Promise<string> {
    await connection.query('BEGIN');
    await connection.query('INSERT INTO orders VALUES (?)', [id]);
    const event = { eventType: 'ORDERED', aggregateType: 'Order', aggregateId: id, payload: { id }, ...rest };
    // Not the connection itself: other tests of this process may have patched its driver.
    const execute: OutboxPort['execute'] = (text, values) => connection.query(text, [...values]);
    try {
      await svc.service.outbox?.save({ dialect: 'mysql', execute }, [event]);
      await connection.query('COMMIT');
      return 'committed';
    } catch (error) {
      await connection.query('ROLLBACK');
      return (error as { code: string }).code;
    }
  }
  const rows = async (text: string): Promise<object[]> => (await connection.query(text))[0] as object[];

  it('cuts, unless svc refuses', async () => {
    await connection.query('CREATE TABLE short (name text NOT NULL)');
    await connection.query('INSERT INTO short VALUES (?)', ['x'.repeat(65_536)]);
    assert.deepEqual(await rows('SELECT LENGTH(name) AS bytes FROM short'), [{ bytes: 65_535 }]);
  });

  it('is stored whole, or refused', async () => {
    const max = 'x'.repeat(65_535);
    const ends = {
      key: await order('key', { key: max }),
      type: await order('type', { eventType: max }),
      longKey: await order('longKey', { key: `${max}x` }),
      longType: await order('longType', { eventType: `${max}x` }),
      longAggregate: await order('longAggregate', { aggregateId: `${max}x` }),
      longAggregateType: await order('longAggregateType', { aggregateType: `${max}x` }),
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
