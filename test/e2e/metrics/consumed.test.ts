import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { envelope, newName, record, testClient } from '../../consume/on-kafka.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { startKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { until } from '../../support/until.ts';
import { startApp } from '../support/start-app.ts';

const root = resolve(import.meta.dirname, '../../..');
const traceId = '0af7651916cd43dd8448eb211c80319c';

const main = `
import kafkajs from 'kafkajs';
import { publish } from '${join(root, 'dist/index.mjs')}';
import { consumeOnce, createInbox, RefusedEvent } from '${join(root, 'dist/consumer.mjs')}';

let stored = new Set();
const inbox = createInbox({
  consumer: 'billing',
  store: {
    async transaction(work) {
      const seen = new Set(stored);
      const result = await work(seen);
      stored = seen;
      return result;
    },
    insert: async (seen, { eventId }) => seen.size < seen.add(eventId).size,
  },
});
const kafka = new kafkajs.Kafka({ brokers: [process.env.BROKER], logLevel: 0 });
const producer = kafka.producer();
await producer.connect();
const consumption = await consumeOnce({
  consumer: kafka.consumer({ groupId: process.env.TOPIC, maxWaitTimeInMs: 100 }),
  topics: [process.env.TOPIC],
  inbox,
  handlers: {
    ORDER_PLACED: (event) => publish({ bill: event.payload.id }, { eventType: 'BILLED', key: event.eventId }),
    REFUSED: () => { throw new RefusedEvent('no'); },
    FAILS: (event, tx, { attempt }) => { if (attempt < 3) throw new Error('not yet'); },
  },
  retry: { initialMs: 10, maxMs: 10 },
  deadLetters: { topic: process.env.DEAD, producer },
});
process.once('SIGTERM', async () => {
  await consumption.stop();
  await producer.disconnect();
  console.log('counts ' + JSON.stringify(consumption.counts()));
});
console.log('ready');
`;

requiring('kafka', 'what became of consumed events', function () {
  this.timeout(120_000);

  it('is at /metrics, adds up, and what handlers publish carries the trace and the actor of their event', async () => {
    const kafka = await startKafka();
    const [topic, dead, bills] = [newName('orders'), newName('dead'), newName('bills')];
    for (const name of [topic, dead, bills]) await kafka.createTopic(name, { partitions: 1 });
    const client = testClient(kafka);
    const traced = (id: string, eventType: string) => {
      const made = record(envelope(id, { eventType }), 'k');
      return { ...made, headers: { ...made.headers, traceparent: `00-${traceId}-b7ad6b7169203331-01` } };
    };
    const messages = [
      ...['1', '2', '3', '1'].map((id) => traced(id, 'ORDER_PLACED')),
      ...[traced('4', 'REFUSED'), traced('5', 'FAILS'), traced('6', 'UNKNOWN')],
    ];
    await (await client.producer()).send({ topic, messages });
    const app = temporaryFolder('consumed');
    symlinkSync(join(root, 'node_modules'), join(app, 'node_modules'), 'junction');
    const started = await startApp({
      app,
      files: {
        'package.json': '{ "name": "billing", "type": "module" }',
        'svc.config.json': {
          svc: { broker: { bootstrapServers: kafka.brokers, topic: bills } },
          management: { server: { port: 0 } },
        },
        'main.mjs': main,
      },
      args: ['--import', join(root, 'dist/register.mjs'), 'main.mjs'],
      env: { BROKER: String(kafka.brokers[0]), TOPIC: topic, DEAD: dead },
      timeoutMs: 100_000,
    });
    const [, address] = (await started.waitFor(/management on (http:\S+)\/metrics/)) ?? [];
    const figures = async (): Promise<string[]> => {
      const text = await (await fetch(`${address}/metrics`)).text();
      return text.split('\n').filter((line) => line.startsWith('svc_consumer_') && !/ 0$/.test(line));
    };
    const outcomes = async (): Promise<number> =>
      (await figures())
        .filter((line) => line.includes('outcome='))
        .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
    await until(async () => (await outcomes()) === 7, { limitMs: 60_000, everyMs: 100 });
    assert.equal((await kafka.read(dead, { count: 2 })).length, 2);
    const of = (name: string, eventType: string, more = '') =>
      `svc_consumer_${name}_total{consumer="billing",eventType="${eventType}"${more}}`;
    const shown = (await figures()).filter((line) => !line.includes('handler_seconds')).sort();
    assert.deepEqual(
      shown,
      [
        `${of('events', 'ORDER_PLACED', ',outcome="handled"')} 3`,
        `${of('events', 'ORDER_PLACED', ',outcome="repeated"')} 1`,
        `${of('events', 'REFUSED', ',outcome="dead_letter"')} 1`,
        `${of('events', 'FAILS', ',outcome="handled"')} 1`,
        `${of('events', 'UNKNOWN', ',outcome="dead_letter"')} 1`,
        `${of('retries', 'FAILS')} 2`,
      ].sort(),
    );
    assert.equal((await figures()).filter((line) => line.includes('handler_seconds')).length, 3);
    const published = await kafka.read(bills, { count: 3 });
    for (const { value } of published) {
      const { eventType, metadata } = JSON.parse(String(value));
      assert.deepEqual(
        [eventType, metadata.trace.traceId, metadata.actor.userId, metadata.correlationId],
        ['BILLED', traceId, 'u-1', 'c-1'],
      );
    }
    const { code, stdout } = await started.kill('SIGTERM');
    assert.equal(code, 0);
    const counts = JSON.parse(/^counts (.*)$/m.exec(stdout)?.[1] ?? '');
    assert.deepEqual(counts, {
      ...{
        handled: 4,
        repeated: 1,
        ignored: 0,
        dead_letter: 2,
        returned: 0,
        taken: 7,
        retries: 2,
        inHand: 0,
      },
    });
    const admin = client.kafka.admin();
    await admin.connect();
    const [offsets] = await admin.fetchOffsets({ groupId: topic, topics: [topic] });
    assert.equal(offsets?.partitions[0]?.offset, '7', 'all is committed at the end');
    await admin.disconnect();
    await client.close();
  });
});
