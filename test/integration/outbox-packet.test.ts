import assert from 'node:assert/strict';
import mysql from 'mysql2/promise';
import { mysql2Drivers } from '../../src/adapters/mysql/mysql2-driver.ts';
import type { OutboxEvent } from '../../src/outbox/api/outbox-event.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { patchDriver } from '../contract/captured.ts';
import { rowOf } from '../contract/outbox-store.ts';
import { startOwnMariadb } from '../support/mariadb.ts';
import { startOwnMysql } from '../support/mysql.ts';
import { requiring } from '../support/requires.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const maxPacketBytes = 256 * 1_024;
/** What svc takes a packet to be may be larger than it is, by so much. */
const toleranceBytes = 64;

for (const [name, startOwn] of [
  ['mysql', startOwnMysql],
  ['mariadb', startOwnMariadb],
] as const)
  requiring(`own-${name}`, `an event that is larger than max_allowed_packet: ${name}`, function () {
    this.timeout(60_000);
    let url: string;
    let svc: StartedSvc;
    let connection: mysql.Connection;

    before(async () => {
      const promises = mysql2Drivers.find(({ specifier }) => specifier === 'mysql2/promise');
      assert.ok(promises !== undefined);
      patchDriver(promises, mysql);
      const server = await startOwn();
      url = await server.freshDatabase();
      await server.query(url, `SET GLOBAL max_allowed_packet = ${maxPacketBytes}`);
      const store = openOutboxStore({ url, table: 'svc_outbox_events', initializeSchema: 'always' });
      await store.prepare();
      assert.equal((await store.traits()).maxPacketBytes, maxPacketBytes);
      await store.close(1_000);
      svc = startSvc({ client: 'memory' }, { outbox: { publisherEnabled: false, datasource: { url } } });
      connection = await mysql.createConnection(url.replace(/^mariadb:/, 'mysql:'));
      connection.on('error', () => {});
      await connection.query('CREATE TABLE orders (id int PRIMARY KEY)');
    });
    after(async () => {
      connection?.destroy();
      await svc?.end();
    });

    const payloadOf = (size: number): string => 'x'.repeat(size);
    /** In a transaction that goes on after it, over one connection. */
    async function order(size: number): Promise<string> {
      const event: OutboxEvent = {
        ...{ eventType: 'ORDERED', aggregateType: 'Order', aggregateId: '1', payload: payloadOf(size) },
      };
      await connection.query('BEGIN');
      try {
        await svc.service.outbox?.save(connection, [event]);
        await connection.query('COMMIT');
        return 'stored';
      } catch (error) {
        await connection.query('ROLLBACK');
        return `${(error as { code: string }).code} ${(error as Error).message}`;
      }
    }
    /** The largest size that is taken, between two of which the first is. */
    async function largest(
      from: number,
      to: number,
      isTaken: (size: number) => Promise<boolean>,
    ): Promise<number> {
      let [taken, refused] = [from, to];
      while (refused - taken > 1) {
        const middle = (taken + refused) >> 1;
        if (await isTaken(middle)) taken = middle;
        else refused = middle;
      }
      return taken;
    }
    const rows = async (text: string): Promise<Record<string, unknown>[]> =>
      (await connection.query(text))[0] as Record<string, unknown>[];

    it('is refused before it is sent: the setting is named, and the connection of the application goes on', async () => {
      // The very first event waits until the limit is known.
      assert.match(await order(maxPacketBytes), /max_allowed_packet/);
      const [before] = await rows('SELECT CONNECTION_ID() AS id');
      const last = await largest(1, maxPacketBytes, async (size) => (await order(size)) === 'stored');
      assert.match(
        await order(last + 1),
        /^SVC_OUTBOX_TOO_LONG .*max_allowed_packet of the database is 262144\./,
      );
      assert.equal(await order(last), 'stored');
      assert.deepEqual(await rows('SELECT CONNECTION_ID() AS id'), [before]);
      const [stored] = await rows('SELECT MAX(LENGTH(payload)) AS bytes FROM svc_outbox_events');
      assert.ok(Number(stored?.bytes) > maxPacketBytes - 2_000, String(stored?.bytes));
    });

    it('is the one that the server would refuse, and hardly a smaller one', async () => {
      const { packetBytes, rowStatements } = await import('../../src/outbox/insert-row.ts');
      const { text, values } = rowStatements('svc_outbox_events', 'mysql').insert(rowOf());
      const at = values.findIndex((value) => Buffer.isBuffer(value));
      const withSize = (size: number) => values.with(0, rowOf().eventId).with(at, Buffer.alloc(size, 'x'));
      const isTaken = async (size: number): Promise<boolean> => {
        const own = await mysql.createConnection(url.replace(/^mariadb:/, 'mysql:'));
        own.on('error', () => {});
        try {
          await own.execute(text, [...withSize(size)]);
          return true;
        } catch {
          return false;
        } finally {
          own.destroy();
        }
      };
      const last = await largest(1_000, maxPacketBytes + 1_000, isTaken);
      const bytes = packetBytes(withSize(last));
      assert.ok(bytes >= maxPacketBytes - 1 && bytes <= maxPacketBytes + toleranceBytes, String(bytes));
    });

    it('is stored by itself as well, whole, up to that size', async () => {
      const store = openOutboxStore({ url, table: 'svc_outbox_events', initializeSchema: 'never' });
      const row = (size: number) =>
        rowOf({ payload: Buffer.from(payloadOf(size)), aggregateId: `alone-${size}` });
      try {
        for (const size of [1_000, maxPacketBytes / 2, maxPacketBytes - 1_000]) {
          await store.insert([row(size)]);
          const [found] = await store.read({ aggregateId: `alone-${size}` }, 0, 1);
          assert.equal(found?.payload.length, size);
        }
        await assert.rejects(store.insert([row(maxPacketBytes)]), {
          code: 'SVC_OUTBOX_TOO_LONG',
          message: /max_allowed_packet/,
        });
        await store.insert([row(10)]);
      } finally {
        await store.close(1_000);
      }
    });
  });
