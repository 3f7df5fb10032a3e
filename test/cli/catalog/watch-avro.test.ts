import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import kafkajs from 'kafkajs';
import { codecsOf } from '../../../src/serialize/avro/avro.ts';
import { newTopic } from '../../contract/broker.ts';
import { writeFiles } from '../../e2e/support/run-app.ts';
import { avroConfig } from '../../serialize/avro-of.ts';
import { startKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { runSvc } from '../../support/run-svc.ts';
import { startSchemaRegistry } from '../../support/schema-registry.ts';

requiring(['kafka', 'schema-registry'], 'svc catalog --watch with a schema registry', function () {
  this.timeout(180_000);

  it('learns from Avro what is JSON in it, and writes the schema as it is registered', async () => {
    const [kafka, registry] = await Promise.all([startKafka(), startSchemaRegistry()]);
    const topic = newTopic();
    await kafka.createTopic(topic, { partitions: 1 });
    const codec = codecsOf(avroConfig())('ORDER_CREATED');
    const subject = `${topic}-${codec.name}`;
    const { id } = (await registry.call('POST', `/subjects/${subject}/versions`, {
      schema: codec.schema,
    })) as {
      id: number;
    };
    const nobody = { serviceName: 'shop', serviceVersion: null, hostname: null };
    const { head, tail } = codec.encode({
      ...{ eventId: '7', eventType: 'ORDER_CREATED', occurredAt: 1, severity: 'INFO' },
      metadata: {
        ...{ source: nobody, actor: { userId: null, sessionId: null }, correlationId: null, clientIp: null },
        ...{ trace: { traceId: null, spanId: null, parentSpanId: null }, tags: {} },
      },
      payload: { json: () => '{"orderId":7,"note":"topsecret"}' },
    });
    const prefix = Buffer.alloc(5);
    prefix.writeInt32BE(id, 1);
    const value = Buffer.concat([prefix, Buffer.from(`${head}\0${tail}`, 'latin1')]);
    const producer = new kafkajs.Kafka({ brokers: [...kafka.brokers] }).producer();
    await producer.connect();
    await producer.send({ topic, messages: [{ value }] });
    await producer.disconnect();
    const folder = mkdtempSync(join(tmpdir(), 'svc-catalog-avro-'));
    try {
      const svc = {
        broker: { topic, bootstrapServers: kafka.brokers },
        serde: { type: 'AVRO', schemaRegistryUrl: registry.url },
        targets: [{ module: './src/a.js', function: 'f', eventType: 'ORDER_CREATED' }],
      };
      writeFiles(folder, {
        'package.json': '{ "name": "shop" }',
        'svc.config.json': JSON.stringify({ svc }),
        'src/a.js': 'export const f = () => ({ orderId: 1, note: 2 });',
      });
      const until = new Date(Date.now() + 500).toISOString();
      const { code, stderr } = await runSvc(['catalog', '--watch', '--since', '1h', '--until', until], {
        cwd: folder,
      });
      assert.equal(code, 0, stderr);
      const read = (name: string) => JSON.parse(readFileSync(join(folder, 'event-catalog', name), 'utf8'));
      const { payload, contentType } = read('svc.catalog.json').events.ORDER_CREATED;
      assert.equal(contentType, 'application/avro');
      assert.deepEqual(payload, {
        type: 'object',
        properties: { note: { type: 'string' }, orderId: { type: 'integer' } },
        required: ['note', 'orderId'],
      });
      assert.deepEqual(read('avro/ORDER_CREATED.avsc'), JSON.parse(codec.schema));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
