import assert from 'node:assert/strict';
import pg from 'pg';
import { type Consumption, consumeOnce } from '../../src/consume/consume-once.ts';
import { createInbox } from '../../src/consume/inbox.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { until } from '../support/until.ts';
import { envelope, newName, record, type TestClient, testClient } from './on-kafka.ts';

requiring('kafka', 'consumeOnce on a real Kafka', () => {
  requiring('postgres', 'with PostgreSQL', function () {
    this.timeout(60_000);
    let kafka: TestKafka;
    let client: TestClient;
    let pool: pg.Pool;
    const running: Consumption[] = [];

    before(async () => {
      kafka = await startKafka();
      client = testClient(kafka);
      const server = await startPostgres();
      pool = new pg.Pool({ connectionString: await server.freshDatabase(), max: 10 });
      await pool.query('CREATE TABLE bills (event_id text, number int)');
      await createInbox({ pool, consumer: 'any' }).migrate();
    });
    afterEach(() => Promise.all(running.splice(0).map((each) => each.stop())));
    after(async () => {
      await client?.close();
      await pool?.end();
    });

    it('handles each event once, in the order of its partition, whoever sends it twice', async () => {
      const topic = newName('orders');
      await kafka.createTopic(topic, { partitions: 3 });
      const producer = await client.producer();
      const events = Array.from({ length: 90 }, (_, n) => record(envelope(`${topic}-${n}`), `k${n % 9}`));
      await producer.send({ topic, messages: [...events, ...events] });
      const inbox = createInbox({ pool, consumer: topic });
      const seen: string[] = [];
      const consumption = await consumeOnce({
        consumer: client.consumer(topic),
        ...{ topics: [topic], inbox },
        handlers: {
          ORDER_PLACED: async (event, tx, { key }) => {
            seen.push(`${key} ${event.eventId}`);
            await tx.query('INSERT INTO bills VALUES ($1, 1)', [event.eventId]);
          },
        },
      });
      running.push(consumption);
      await until(() => consumption.counts().taken === 180 && consumption.counts().inHand === 0);
      const { handled, repeated } = consumption.counts();
      assert.deepEqual({ handled, repeated }, { handled: 90, repeated: 90 });
      const { rows } = await pool.query('SELECT event_id FROM bills WHERE event_id LIKE $1', [`${topic}-%`]);
      assert.equal(new Set(rows.map(({ event_id }) => event_id)).size, 90);
      assert.equal(rows.length, 90);
      for (let key = 0; key < 9; key++) {
        const numbers = seen
          .filter((each) => each.startsWith(`k${key} `))
          .map((each) => Number(each.split('-').at(-1)));
        assert.deepEqual(
          numbers,
          [...numbers].sort((a, b) => a - b),
        );
      }
    });
  });
});
