import assert from 'node:assert/strict';
import { readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import kafkajs from 'kafkajs';
import { readEnvelope } from '../../src/consumer/decrypt-fields.ts';
import { runWithContext } from '../../src/context/request.ts';
import { eventOf } from '../consume/handling-under-test.ts';
import { startApp } from '../e2e/support/start-app.ts';
import { readWithJavaScript, readWithPython } from '../support/cloud-event-readers.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import type { ReadRecord } from '../support/kafka-records.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const payload = { orderId: 7, note: 'é漢😀"\n', lines: [{ sku: 'a', count: 2 }], id: 'its own', type: null };
const context = {
  userId: 'ü-17',
  sessionId: 's\u0000\ud800',
  correlationId: 'c-1',
  tags: { tenant: 'acme', TENANT: 'ACME', 'with blank': 'ü\u007f', id: 'x', data: 'y' },
};
const root = resolve(import.meta.dirname, '../..');
const folder = temporaryFolder('ce');
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

        const event = await eventOf(full);
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

  it('refuses an event with a header of the application that begins with ce_, and sends the others', async () => {
    const topic = await freshTopic('refused');
    const svc = svcOn(topic, {});
    const { producer } = svc.service;
    const refused = { code: 'SVC_SERIALIZE_CLOUDEVENT' };
    const headers = { ce_id: 'secret' };
    await assert.rejects(producer.publish({}, { eventType: 'A', headers }), refused);
    await assert.rejects(producer.publish({}, { eventType: 'A\n' }), refused);
    await producer.publish({}, { eventType: 'A' });
    assert.equal((await kafka.read(topic, { count: 1 })).length, 1);
    assert.match(svc.lines.join('\n'), /event refused: .*begins with ce_/);
    assert.doesNotMatch(svc.lines.join('\n'), /secret/);
  });

  /** Takes nothing larger, until it is let in. */
  async function smallTopic(): Promise<string> {
    const topic = `ce-small-${++topics}-${Date.now()}`;
    await kafka.createTopic(topic, { config: { 'max.message.bytes': '2000' } });
    return topic;
  }

  async function letIn(topic: string): Promise<void> {
    const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).admin();
    await admin.connect();
    const configEntries = [{ name: 'max.message.bytes', value: '100000' }];
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries }] });
    await admin.disconnect();
  }

  const large = { orderId: 7, note: 'ü'.repeat(2_000), eventId: 'its own', eventType: 'OWN', value: '{}' };

  /** Of a process that knows nothing of CloudEvents. */
  async function svcCommand(...args: string[]): Promise<string> {
    const env = { SVC_BROKER_BOOTSTRAP_SERVERS: kafka.brokers.join(','), SVC_BROKER_TOPIC: 'others' };
    const { code, stdout, stderr } = await runSvc(args, { cwd: folder, env });
    assert.equal(code, 0, stderr);
    return stdout;
  }

  async function isWhole(topic: string, eventId: string, atMs: number): Promise<void> {
    const [record] = (await kafka.read(topic, { count: 1 })).map(recordOf);
    assert.ok(record !== undefined);
    const read = readWithJavaScript(record);
    assert.deepEqual(await readWithPython([record]), [read]);
    const { id, type, subject, source, recordedtime } = read.attributes;
    assert.deepEqual(
      { id, type, subject, source },
      { id: eventId, type: 'ORDER_PLACED', subject: 'ö', source: '/o' },
    );
    assert.deepEqual(read.data, large);
    assert.ok(Math.abs(Date.parse(String(recordedtime)) - atMs) < 60_000, 'when it was handed over first');
    const event = await eventOf(record);
    assert.deepEqual([event.eventId, event.payload], [eventId, large]);
    assert.deepEqual(
      Object.keys(record.headers).filter((name) => /^(original|exception|svc)/.test(name)),
      [],
    );
  }

  for (const mode of ['binary', 'structured'])
    for (const dlqFormat of ['operations', 'recovery'])
      it(`${mode}: a dead letter in the shape ${dlqFormat} goes to its topic as the CloudEvent that it was`, async () => {
        const [topic, dlqTopic] = [await smallTopic(), await freshTopic('dead')];
        const svc = svcOn(topic, { mode, source: '/o' }, { dlqTopic, dlqFormat });
        const { eventId, outcome } = await svc.service.producer.publish(large, {
          eventType: 'ORDER_PLACED',
          key: 'ö',
        });
        assert.equal(outcome, 'dlq');
        const [letter] = (await kafka.read(dlqTopic, { count: 1 })).map(recordOf);
        assert.ok(letter !== undefined);
        await assert.rejects(eventOf(letter), { code: 'SVC_CONSUME_UNREADABLE' });
        const sentMs = letter.timestamp;
        await letIn(topic);
        const list = await svcCommand('dlq', 'list', '--dlq-topic', dlqTopic);
        assert.match(list, new RegExp(`${eventId}.*ORDER_PLACED`));
        await svcCommand('dlq', 'recover', '--dlq-topic', dlqTopic, '--topic', topic);
        await isWhole(topic, eventId, sentMs);
      });

  for (const mode of ['binary', 'structured'])
    for (const format of ['event', 'record'])
      it(`${mode}: a backup of ${format} files is restored as the CloudEvent that it was`, async () => {
        const topic = await smallTopic();
        const svc = svcOn(topic, { mode, source: '/o' }, { backup: { format } });
        const { eventId, outcome } = await svc.service.producer.publish(large, {
          eventType: 'ORDER_PLACED',
          key: 'ö',
        });
        assert.equal(outcome, 'backup');
        const sentMs = Date.now();
        const backup = join(svc.folder, 'backup');
        await svc.end();
        started.length = 0;
        const [file] = readdirSync(backup).filter((name) => name.endsWith('.json'));
        const stored = JSON.parse(readFileSync(join(backup, String(file)), 'utf8'));
        if (format === 'record') {
          assert.deepEqual(stored.payload, large);
          assert.match(stored.occurredAt, /^\d{4}-.*Z$/);
        }
        assert.match(
          await svcCommand('backup', 'list', '--dir', backup),
          new RegExp(`${eventId}.*ORDER_PLACED`),
        );
        await letIn(topic);
        await svcCommand('backup', 'restore', '--dir', backup, '--topic', topic);
        await isWhole(topic, eventId, sentMs);
      });

  for (const mode of ['binary', 'structured'])
    it(`${mode}: a row of the outbox is sent as a CloudEvent`, async () => {
      const topic = await freshTopic('outbox');
      const app = temporaryFolder('ce-outbox');
      symlinkSync(join(root, 'node_modules'), join(app, 'node_modules'), 'junction');
      const config = {
        svc: {
          broker: { bootstrapServers: kafka.brokers, topic },
          serde: { envelope: 'cloudevents', cloudevents: { mode, source: '/o' } },
          outbox: { enabled: true, initializeSchema: 'always', datasource: { url: 'sqlite:./app.db' } },
          targets: [
            {
              ...{ module: './orders.mjs', function: 'place', eventType: 'ORDER_PLACED', key: "'ö'" },
              outbox: { aggregateType: 'Order', aggregateId: '#order.orderId' },
            },
          ],
        },
        management: { server: { port: 0 } },
      };
      const started = await startApp({
        app,
        files: {
          'orders.mjs': `export function place(client, order) { client.prepare('INSERT INTO orders (id) VALUES (?)').run(order.orderId); return order; }`,
          'package.json': '{"name":"shop"}',
          'svc.config.json': config,
          'main.mjs': `import Database from 'better-sqlite3';
            import { place } from './orders.mjs';
            const client = new Database('app.db');
            client.exec('CREATE TABLE orders (id varchar(20) PRIMARY KEY)');
            client.transaction(() => place(client, ${JSON.stringify(large)}))();
            client.close();`,
        },
        args: ['--import', join(root, 'dist/register.mjs'), 'main.mjs'],
        timeoutMs: 60_000,
      });
      const { code, stderr } = await started.ended;
      assert.equal(code, 0, stderr);
      const [record] = (await kafka.read(topic, { count: 1, timeoutMs: 30_000 })).map(recordOf);
      await isWhole(topic, String(record?.headers.eventId), Date.now());
    });
});
