import kafkajs from 'kafkajs';
import pg from 'pg';
import type { Bench } from '../../scripts/bench.ts';
import { consumeOnce } from '../../src/consume/consume-once.ts';
import { createInbox, type InboxOnce } from '../../src/consume/inbox.ts';
import { envelope, newName, record } from '../consume/on-kafka.ts';
import { startOwnKafka } from '../support/kafka.ts';
import { startOwnPostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { quantile } from './load.ts';
import { payload } from './payload.ts';

const sent = 6_000;
const partitions = 6;

/** Events of about 1 KB, each with a row of the application in a transaction of its own, with the inbox and without it. */
export const bench: Bench = async (progress, args = []) => {
  const at = args.indexOf('--rounds');
  const rounds = at < 0 ? 3 : Number(args[at + 1]);
  const [kafka, postgres] = [await startOwnKafka(), await startOwnPostgres()];
  const client = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: kafkajs.logLevel.NOTHING });
  const pool = new pg.Pool({ connectionString: await postgres.freshDatabase(), max: 10 });
  const runs = new Map<string, number[]>();
  try {
    await pool.query('CREATE TABLE bills (event_id text)');
    await createInbox({ pool, consumer: 'any' }).migrate();
    const topic = newName('orders');
    await kafka.createTopic(topic, { partitions });
    const producer = client.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
    await producer.connect();
    for (let from = 0; from < sent; from += 500)
      await producer.send({
        topic,
        messages: Array.from({ length: 500 }, (_, n) =>
          record(envelope(`e-${from + n}`, { payload }), `k${n}`),
        ),
      });
    await producer.disconnect();
    // A producer that has to try again sends some twice.
    const events = await kafka.count(topic);
    /** The same transaction, and nothing that remembers. */
    const none: InboxOnce<pg.PoolClient> = {
      async once(_, work) {
        const tx = await pool.connect();
        try {
          await tx.query('BEGIN');
          const result = await work(tx);
          await tx.query('COMMIT');
          return { handled: true, result };
        } finally {
          tx.release();
        }
      },
    };
    for (let round = 1; round <= rounds; round++)
      for (const name of ['without', 'with', 'repeated']) {
        const group = name === 'repeated' ? `with-${round}` : `${name}-${round}`;
        const inbox = name === 'without' ? none : createInbox({ pool, consumer: group });
        const begun = performance.now();
        let first = begun;
        const consumption = await consumeOnce<pg.PoolClient>({
          ...{ topics: [topic], inbox: { ...inbox, consumer: newName(name) } },
          consumer: client.consumer({ groupId: newName(group), maxWaitTimeInMs: 100 }),
          handlers: {
            ORDER_PLACED: (event, tx) => tx.query('INSERT INTO bills VALUES ($1)', [event.eventId]),
          },
        });
        const done = (): number => consumption.counts().handled + consumption.counts().repeated;
        // The group takes its time, which has nothing to do with the events.
        await until(() => done() > 0, { limitMs: 60_000, everyMs: 1 });
        const before = done();
        first = performance.now();
        await until(() => done() === events, {
          ...{ limitMs: 120_000, everyMs: 5, say: () => JSON.stringify(consumption.counts()) },
        });
        const rate = Math.round(((events - before) * 1_000) / (performance.now() - first));
        await consumption.stop();
        runs.set(name, [...(runs.get(name) ?? []), rate]);
        progress(`round ${round} ${name}: ${rate} events/s`);
      }
  } finally {
    await pool.end();
    await Promise.all([kafka.stop(), postgres.stop()]);
  }
  const medianOf = (name: string): number => quantile(runs.get(name) ?? [], 0.5);
  return ['without', 'with', 'repeated'].map((name) => {
    const figure = { case: name, value: medianOf(name), unit: 'events/s' };
    if (name === 'without') return figure;
    return {
      ...figure,
      against: 'without',
      ratio: Number((medianOf(name) / medianOf('without')).toFixed(2)),
    };
  });
};
