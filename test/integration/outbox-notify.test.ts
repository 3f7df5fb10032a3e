import assert from 'node:assert/strict';
import pg from 'pg';
import type { OutboxPort } from '../../src/outbox/api/executor.ts';
import { shardOf } from '../../src/outbox/outbox-row.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { startSvc } from './started-svc.ts';

requiring('postgres', 'NOTIFY for committed rows', function () {
  this.timeout(30_000);

  it('goes out for a relay elsewhere, and not where a connector reads the rows', async () => {
    const url = await (await startPostgres()).freshDatabase();
    const store = openOutboxStore({ url, table: 'svc_outbox_events', initializeSchema: 'always' });
    await store.prepare();
    await store.close(1_000);
    const client = new pg.Client({ connectionString: url });
    const listener = new pg.Client({ connectionString: url });
    await Promise.all([client.connect(), listener.connect()]);
    const heard: string[] = [];
    listener.on('notification', ({ payload }) => heard.push(String(payload)));
    await listener.query('LISTEN svc_outbox_events_stored');

    // Not the client itself: other tests of this process may have patched its driver.
    const executor: OutboxPort = {
      dialect: 'postgres',
      execute: (text, values) => client.query(text, [...values]),
    };

    async function commit(aggregateId: string, retentionDays: number): Promise<void> {
      const { service, end } = startSvc(
        { client: 'memory' },
        { outbox: { publisherEnabled: false, retentionDays, datasource: { url } } },
      );
      // By then svc has loaded its driver, and follows the application's: before, it would not see the BEGIN.
      await new Promise((done) => setTimeout(done, 300));
      await client.query('BEGIN');
      const event = { eventType: 'ORDERED', aggregateType: 'Order', aggregateId, payload: {} };
      await service.outbox?.save(executor, [event]);
      await client.query('COMMIT');
      // A notice goes out at once, or within a tenth of a second.
      await new Promise((done) => setTimeout(done, 300));
      await end();
    }

    try {
      await commit('to-a-connector', 0);
      await commit('to-a-relay', 7);
      const { rows } = await client.query('SELECT aggregate_id FROM svc_outbox_events ORDER BY id');
      assert.deepEqual(rows, [{ aggregate_id: 'to-a-connector' }, { aggregate_id: 'to-a-relay' }]);
      assert.deepEqual(heard, [String(shardOf({ aggregateType: 'Order', aggregateId: 'to-a-relay' }))]);
    } finally {
      await Promise.all([client.end(), listener.end()]);
    }
  });
});
