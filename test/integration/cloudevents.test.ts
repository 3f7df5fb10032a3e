import assert from 'node:assert/strict';
import { readEvent } from '../../src/consume/consumed-event.ts';
import { readEnvelope } from '../../src/consumer/read-envelope.ts';
import { runWithContext } from '../../src/context/run-with-context.ts';
import { readWithJavaScript, readWithPython } from '../support/cloud-event-readers.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import type { ReadRecord } from '../support/kafka-records.ts';
import { requiring } from '../support/requires.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const payload = { orderId: 7, note: 'é漢😀"\n', lines: [{ sku: 'a', count: 2 }], id: 'its own', type: null };
const context = {
  userId: 'ü-17',
  sessionId: 's\u0000\ud800',
  correlationId: 'c-1',
  tags: { tenant: 'acme', TENANT: 'ACME', 'with blank': 'ü\u007f', id: 'x', data: 'y' },
};
let topics = 0;

requiring(['kafka', 'python-cloudevents'], 'CloudEvents on Kafka', function () {
  this.timeout(120_000);
  let kafka: TestKafka;
  const started: StartedSvc[] = [];

  before(async () => {
    kafka = await startKafka();
  });
  afterEach(async () => {
    for (const svc of started.splice(0)) await svc.end();
  });

  async function freshTopic(name: string): Promise<string> {
    const topic = `ce-${name}-${++topics}-${Date.now()}`;
    await kafka.createTopic(topic, { partitions: 2 });
    return topic;
  }

  function svcOn(topic: string, cloudevents: object, broker: object = {}): StartedSvc {
    const svc = startSvc(
      { client: 'kafkajs', bootstrapServers: kafka.brokers, topic, ...broker },
      { serde: { envelope: 'cloudevents', cloudevents } },
    );
    started.push(svc);
    return svc;
  }

  const recordOf = ({ key, headers, valueBytes, timestamp }: ReadRecord) => ({
    ...{ key, headers: headers as Record<string, string>, timestamp },
    value: valueBytes as Buffer,
  });

  for (const mode of ['binary', 'structured'])
    for (const client of ['kafkajs', 'platformatic'])
      it(`${mode}, ${client}: the official SDKs read what svc wrote, and nothing of the envelope is lost`, async () => {
        const topic = await freshTopic(mode);
        const svc = svcOn(topic, { mode, source: 'https://example.com/orders' }, { client });
        const { producer } = svc.service;
        await runWithContext(context, () =>
          producer.publish(payload, { eventType: 'com.example.order.placed', key: 'ö/7', severity: 'WARN' }),
        );
        await producer.publish({ a: 1 }, { eventType: 'ORDER_CREATED', headers: { tenant: 'acme' } });
        assert.deepEqual(svc.lines, []);
        const records = (await kafka.read(topic, { count: 2 })).map(recordOf);
        const [full, plain] = records.sort((a) => (a.key === 'ö/7' ? -1 : 1));
        assert.ok(full !== undefined && plain !== undefined);
        const contentType = {
          binary: 'application/json',
          structured: 'application/cloudevents+json; charset=UTF-8',
        }[mode];
        assert.equal(full.headers['content-type'], contentType);
        assert.equal(
          Object.keys(full.headers).some((name) => name.startsWith('ce_')),
          mode === 'binary',
        );
        assert.equal(plain.headers.tenant, 'acme');

        const python = await readWithPython([full, plain]);
        for (const [index, record] of [full, plain].entries()) {
          const read = readWithJavaScript(record);
          assert.deepEqual(read, python[index]);
          assert.equal(read.attributes.id, record.headers.eventId);
        }
        const { attributes, data } = readWithJavaScript(full);
        assert.deepEqual(data, payload);
        const { eventId, traceparent = '' } = full.headers;
        const { time, recordedtime, hostname, servicename, serviceversion, parentspanid, ...rest } =
          attributes;
        assert.deepEqual(rest, {
          ...{ specversion: '1.0', id: eventId, type: 'com.example.order.placed' },
          ...{ source: 'https://example.com/orders', subject: 'ö/7', datacontenttype: 'application/json' },
          ...{ severitytext: 'WARN', severitynumber: mode === 'binary' ? '13' : 13 },
          ...{ userid: 'ü-17', sessionid: 's\ufffd\ufffd', correlationid: 'c-1', traceparent },
          tags: JSON.stringify(context.tags).replace('\u007f', '\\u007f'),
        });
        assert.equal(Date.parse(String(recordedtime)), full.timestamp);
        const { attributes: few } = readWithJavaScript(plain);
        assert.deepEqual(
          ['subject', 'tags', 'userid'].filter((name) => name in few),
          [],
        );

        const { event } = await readEvent(full, {});
        assert.deepEqual(readEnvelope(full), event);
        const [, traceId, spanId] = traceparent.split('-');
        assert.deepEqual(event, {
          ...{ eventId, eventType: 'com.example.order.placed', occurredAt: time, publishedAt: recordedtime },
          severity: 'WARN',
          metadata: {
            source: { serviceName: servicename, serviceVersion: serviceversion, hostname },
            actor: { userId: 'ü-17', sessionId: 's\ufffd\ufffd' },
            trace: { traceId, spanId, parentSpanId: parentspanid ?? null },
            ...{ correlationId: 'c-1', clientIp: null, tags: context.tags },
          },
          payload,
        });
      });
});
