import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import { createAvroReader } from '../../src/adapters/schema-registry/avro-reader.ts';
import { splitRecord } from '../../src/serialize/avro/avro.ts';
import { eventOf } from '../consume/handling-under-test.ts';
import { runApp, writeFiles } from '../e2e/support/run-app.ts';
import { copyWithJava, copyWithPython } from '../support/avro-readers.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import type { ReadRecord } from '../support/kafka-records.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';
import {
  type OwnRegistry,
  startOwnSchemaRegistry,
  startSchemaRegistry,
  type TestRegistry,
} from '../support/schema-registry.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const order = {
  type: 'record',
  name: 'Order',
  fields: [
    { name: 'orderId', type: 'long' },
    { name: 'total', type: { type: 'bytes', logicalType: 'decimal', precision: 12, scale: 2 } },
    { name: 'placedAt', type: { type: 'long', logicalType: 'timestamp-millis' } },
    { name: 'note', type: ['null', 'string'] },
    {
      name: 'lines',
      type: {
        type: 'array',
        items: {
          type: 'record',
          name: 'Line',
          fields: [
            { name: 'sku', type: 'string' },
            { name: 'count', type: 'int' },
          ],
        },
      },
    },
  ],
};
const placedAt = '2026-11-24T10:00:00.123Z';
const typedOrder = {
  orderId: 7,
  total: '-1234.50',
  placedAt: new Date(placedAt),
  lines: [{ sku: 'é漢😀', count: 2 }],
};

const folder = mkdtempSync(join(tmpdir(), 'svc-avro-'));
const orderFile = join(folder, 'order.avsc');
writeFileSync(orderFile, JSON.stringify(order));
let topics = 0;

requiring(['kafka', 'schema-registry', 'fastavro', 'java'], 'Avro with a schema registry', function () {
  this.timeout(120_000);
  let kafka: TestKafka;
  let registry: TestRegistry;
  const started: StartedSvc[] = [];

  before(async () => {
    [kafka, registry] = await Promise.all([startKafka(), startSchemaRegistry()]);
  });
  afterEach(async () => {
    for (const svc of started.splice(0)) await svc.end();
  });

  async function freshTopic(name: string): Promise<string> {
    const topic = `avro-${name}-${++topics}-${Date.now()}`;
    await kafka.createTopic(topic, { partitions: 2 });
    return topic;
  }

  // As long as the delivery timeout is.
  const patient = { maxAttempts: 100, initialInterval: 1_000, multiplier: 1 };

  function svcOn(topic: string, serde: object, broker: object = {}, url = registry.url): StartedSvc {
    const svc = startSvc(
      { client: 'kafkajs', bootstrapServers: kafka.brokers, topic, ...broker },
      {
        retry: patient,
        serde: { type: 'AVRO', schemaRegistryUrl: url, schemas: { ORDER_PLACED: [orderFile] }, ...serde },
      },
    );
    started.push(svc);
    return svc;
  }

  const bytesOf = ({ valueBytes }: ReadRecord): Buffer => valueBytes as Buffer;
  const subjects = async (topic: string): Promise<string[]> =>
    ((await registry.call('GET', '/subjects')) as string[]).filter((name) => name.includes(topic)).sort();

  for (const client of ['kafkajs', 'platformatic']) {
    it(`${client}: Java, Python and svc read what svc wrote, and svc what they write`, async () => {
      const topic = await freshTopic('read');
      const svc = svcOn(topic, {}, { client });
      const text = { text: 'é漢😀"\n', count: 12_345_678_901, list: [1, null, { a: true }] };
      await svc.service.producer.publish(text, { eventType: 'NOTE_TAKEN', key: 'k' });
      await svc.service.producer.publish(typedOrder, { eventType: 'ORDER_PLACED', key: 'k' });
      // The registry has told both ids by now.
      await svc.service.producer.publish(text, { eventType: 'NOTE_TAKEN', key: 'k' });
      await svc.service.producer.publish(typedOrder, { eventType: 'ORDER_PLACED', key: 'k' });
      assert.deepEqual(svc.lines, []);
      const records = await kafka.read(topic, { count: 4 });
      assert.equal(records.length, 4);
      const written = [];
      for (const record of records) {
        assert.equal(record.headers['content-type'], 'application/avro');
        assert.equal(record.headers['svc-avro-schema'], undefined);
        const { id, body } = splitRecord(bytesOf(record));
        const { schema } = (await registry.call('GET', `/schemas/ids/${id}`)) as { schema: string };
        written.push({ id, schema, body });
      }
      const reader = createAvroReader({ url: registry.url });
      const own = (await Promise.all(records.map((record) => reader.read(bytesOf(record))))) as Record<
        string,
        unknown
      >[];
      for (const [index, record] of records.entries()) {
        // As `consumeOnce` reads it.
        const headers = record.headers as Record<string, string>;
        assert.deepEqual(await eventOf({ headers, value: bytesOf(record) }, { avro: reader }), own[index]);
        const { eventId, publishedAt, eventType } = own[index] as Record<string, string>;
        assert.equal(eventId, record.headers.eventId);
        assert.equal(eventType, record.headers.eventType);
        assert.equal(Date.parse(publishedAt ?? ''), record.timestamp);
      }
      assert.deepEqual(JSON.parse(JSON.stringify(own.map(({ payload }) => payload))), [
        text,
        { ...typedOrder, placedAt, note: null },
        text,
        { ...typedOrder, placedAt, note: null },
      ]);
      const others = { java: await copyWithJava(written), python: await copyWithPython(written) };
      for (const [name, copies] of Object.entries(others)) {
        for (const [index, { record, body }] of copies.entries()) {
          assert.equal(record.eventId, own[index]?.eventId, name);
          const { payload } = record;
          if (index % 2 === 0) assert.deepEqual(JSON.parse(payload as string), text, name);
          else assert.equal((payload as { orderId: number }).orderId, 7, name);
          const prefix = bytesOf(records[index] as ReadRecord).subarray(0, 5);
          assert.deepEqual(await reader.read(Buffer.concat([prefix, body])), own[index], name);
        }
      }
    });
  }

  for (const [strategy, expected] of [
    ['topic', (topic: string) => [`${topic}-value`]],
    ['topic-record', (topic: string) => [`${topic}-svc.events.ORDER_PLACED`]],
    ['record', () => []],
  ] as const)
    it(`registers under the subject of the strategy ${strategy}`, async () => {
      const topic = await freshTopic(strategy);
      const svc = svcOn(topic, { subjectNameStrategy: strategy });
      await svc.service.producer.publish(typedOrder, { eventType: 'ORDER_PLACED' });
      assert.deepEqual(await subjects(topic), expected(topic));
      const all = (await registry.call('GET', '/subjects')) as string[];
      if (strategy === 'record') assert.ok(all.includes('svc.events.ORDER_PLACED'));
    });

  it('refuses a payload that does not fit, with the path of the field and not its value', async () => {
    const topic = await freshTopic('misfit');
    const svc = svcOn(topic, {});
    for (let round = 0; round < 2; round++)
      await assert.rejects(
        svc.service.producer.publish(
          { ...typedOrder, lines: [{ sku: 'hunter2', count: 'hunter2' }] },
          { eventType: 'ORDER_PLACED' },
        ),
        {
          code: 'SVC_SERIALIZE_SCHEMA_MISFIT',
          message: 'the payload does not fit its Avro schema: payload.lines[0].count is no int',
        },
      );
    await svc.service.producer.publish(typedOrder, { eventType: 'ORDER_PLACED' });
    assert.equal((await kafka.read(topic, { count: 1 })).length, 1);
    assert.doesNotMatch(svc.lines.join('\n'), /hunter2/);
  });

  it('auto-register off: a schema that is not there ends in the dead letter topic, and is sent once it is', async () => {
    const [topic, dlqTopic] = [await freshTopic('look-up'), await freshTopic('dead')];
    const svc = svcOn(topic, { autoRegister: false }, { dlqTopic });
    const { outcome } = await svc.service.producer.publish(typedOrder, {
      eventType: 'ORDER_PLACED',
      key: 'k',
    });
    assert.equal(outcome, 'dlq');
    assert.match(svc.lines.join('\n'), /subject \S+-svc\.events\.ORDER_PLACED does not have this schema/);
    const [letter] = await kafka.read(dlqTopic, { count: 1 });
    const { exceptionType, originalPayload } = JSON.parse(letter?.value ?? '');
    assert.equal(exceptionType, 'SVC_SERIALIZE_SCHEMA_REFUSED');
    assert.equal(letter?.headers['svc-avro-schema'], 'svc.events.ORDER_PLACED');
    assert.equal(JSON.parse(originalPayload).payload.orderId, 7);
    assert.equal(await kafka.count(topic), 0);

    // A command that knows nothing of Avro sends it in no other form.
    const unaware = await recover(['--topic', topic], topic, dlqTopic, { SVC_SERDE_TYPE: 'JSON' });
    assert.equal(unaware.code, 1);
    assert.match(
      unaware.stderr,
      /waits for the schema svc\.events\.ORDER_PLACED .*set svc\.serde\.type: AVRO/,
    );
    assert.equal(await kafka.count(topic), 0);

    const recovered = await recover(['--topic', topic], topic, dlqTopic, { SVC_SERDE_AUTO_REGISTER: 'true' });
    assert.equal(recovered.code, 0, recovered.stderr);
    assert.match(recovered.stderr, /: 1 of 1 events sent to their topics/);
    const [record] = await kafka.read(topic, { count: 1 });
    const event = (await createAvroReader({ url: registry.url }).read(bytesOf(record as ReadRecord))) as {
      payload: { total: string };
    };
    assert.equal(event.payload.total, '-1234.50');
    assert.equal(record?.headers['svc-avro-schema'], undefined);
  });

  function recover(to: string[], topic: string, dlqTopic: string, env: Record<string, string> = {}) {
    return runSvc(['dlq', 'recover', '--dlq-topic', dlqTopic, ...to], {
      cwd: folder,
      env: {
        SVC_BROKER_BOOTSTRAP_SERVERS: kafka.brokers.join(','),
        SVC_BROKER_TOPIC: topic,
        SVC_SERDE_TYPE: 'AVRO',
        SVC_SERDE_SCHEMA_REGISTRY_URL: registry.url,
        SVC_SERDE_SCHEMAS: `ORDER_PLACED=${orderFile}`,
        ...env,
      },
    });
  }

  it('a schema that is not compatible ends in the dead letter topic; other events go on', async () => {
    const [topic, dlqTopic] = [await freshTopic('conflict'), await freshTopic('dead')];
    const subject = `${topic}-svc.events.ORDER_PLACED`;
    const other = { type: 'record', name: 'ORDER_PLACED', namespace: 'svc.events', fields: [] };
    const path = `/subjects/${encodeURIComponent(subject)}/versions`;
    await registry.call('POST', path, { schema: JSON.stringify(other) });
    await registry.call('PUT', `/config/${encodeURIComponent(subject)}`, { compatibility: 'FULL' });
    const svc = svcOn(topic, {}, { dlqTopic });
    const send = (eventType: string) => svc.service.producer.publish(typedOrder, { eventType, key: 'k' });
    const outcomes = await Promise.all([send('OTHER'), send('ORDER_PLACED'), send('OTHER')]);
    assert.deepEqual(
      outcomes.map(({ outcome }) => outcome),
      ['published', 'dlq', 'published'],
    );
    assert.match(svc.lines.join('\n'), /not compatible with subject \S+ \(409\)/);
  });

  it('a dead letter of Avro shows its event as JSON, and is sent again with the same bytes', async () => {
    const [tiny, dlqTopic] = [`${await freshTopic('small')}-tiny`, await freshTopic('dead')];
    await kafka.createTopic(tiny, { config: { 'max.message.bytes': '2000' } });
    const svc = svcOn(tiny, {}, { dlqTopic });
    await svc.service.producer.publish(typedOrder, { eventType: 'ORDER_PLACED' });
    const note = 'x'.repeat(3_000);
    const { eventId, outcome } = await svc.service.producer.publish(
      { ...typedOrder, note },
      { eventType: 'ORDER_PLACED', key: 'k' },
    );
    assert.equal(outcome, 'dlq');
    const [letter] = await kafka.read(dlqTopic, { count: 1 });
    const message = JSON.parse(letter?.value ?? '');
    assert.equal(message.originalPayloadEncoding, 'base64');
    assert.equal(message.originalEvent.payload.note, note);
    assert.equal(message.originalEvent.eventId, eventId);
    await letIn(tiny);
    const sent = await recover(['--topic', tiny], tiny, dlqTopic);
    assert.equal(sent.code, 0, sent.stderr);
    const [record] = (await kafka.read(tiny, { count: 2 })).filter(
      ({ headers }) => headers.eventId === eventId,
    );
    assert.deepEqual(bytesOf(record as ReadRecord), Buffer.from(message.originalPayload, 'base64'));
    assert.equal(record?.headers['content-type'], 'application/avro');
  });

  async function letIn(topic: string): Promise<void> {
    const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).admin();
    await admin.connect();
    const configEntries = [{ name: 'max.message.bytes', value: '100000' }];
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries }] });
    await admin.disconnect();
  }

  it('svc check --online asks the registry, and registers nothing', async () => {
    const topic = await freshTopic('check');
    const check = async (serde: object): Promise<{ code: number | null; lines: string[] }> => {
      const app = mkdtempSync(join(folder, 'app-'));
      writeFileSync(join(app, 'orders.mjs'), 'export function place() {}\nexport function note() {}\n');
      const targets = [
        { module: './orders.mjs', function: 'place', eventType: 'ORDER_PLACED' },
        { module: './orders.mjs', function: 'note', eventType: 'NOTED' },
      ];
      const broker = { bootstrapServers: kafka.brokers, topic, backup: { localEnabled: false } };
      const schemas = { ORDER_PLACED: orderFile };
      const all = { type: 'AVRO', schemaRegistryUrl: registry.url, schemas, ...serde };
      const svc = { broker, serde: all, targets, idGenerator: { type: 'uuidv7' } };
      writeFileSync(join(app, 'svc.config.json'), JSON.stringify({ svc }));
      const { code, stdout } = await runSvc(['check', '--online'], { cwd: app });
      const shown = stdout.slice(stdout.indexOf('schema registry: ')).replace(/^next: .+\n$/m, '');
      return { code, lines: shown.trimEnd().split('\n') };
    };
    const subject = `${topic}-svc.events.ORDER_PLACED`;
    assert.deepEqual(await check({}), {
      code: 0,
      lines: [
        `schema registry: ${registry.url}`,
        `  schema of ORDER_PLACED, subject ${subject}: would be registered at the first event`,
        `  schema of NOTED, subject ${topic}-svc.events.NOTED: would be registered at the first event`,
      ],
    });
    assert.deepEqual(await subjects(topic), []);
    const path = `/subjects/${encodeURIComponent(subject)}/versions`;
    const other = { type: 'record', name: 'ORDER_PLACED', namespace: 'svc.events', fields: [] };
    await registry.call('POST', path, { schema: JSON.stringify(other) });
    await registry.call('PUT', `/config/${encodeURIComponent(subject)}`, { compatibility: 'FULL' });
    const conflict = await check({});
    assert.equal(conflict.code, 1);
    assert.match(
      conflict.lines[1] ?? '',
      /^ {2}error: the schema of ORDER_PLACED is not compatible with subject/,
    );
    const missing = await check({ autoRegister: false });
    assert.equal(missing.code, 1);
    assert.match(
      missing.lines[2] ?? '',
      /^ {2}error: schema registry at .* does not have this schema: register it/,
    );
    const away = await check({ schemaRegistryUrl: 'http://127.0.0.1:1' });
    assert.equal(away.code, 1);
    assert.match(
      away.lines[1] ?? '',
      /^ {2}error: schema registry at http:\/\/127\.0\.0\.1:1: it cannot be reached \(ECONNREFUSED\)/,
    );
  });

  it('a backup of the format record has the payload for people beside the bytes', async () => {
    const tiny = `${await freshTopic('record')}-tiny`;
    await kafka.createTopic(tiny, { config: { 'max.message.bytes': '2000' } });
    const svc = svcOn(tiny, {}, { backup: { format: 'record', drain: { enabled: false } } });
    await svc.service.producer.publish(typedOrder, { eventType: 'ORDER_PLACED' });
    const note = 'x'.repeat(3_000);
    await svc.service.producer.publish({ ...typedOrder, note }, { eventType: 'ORDER_PLACED' });
    const names = readdirSync(join(svc.folder, 'backup'), { recursive: true, encoding: 'utf8' });
    const [file] = names.filter((name) => name.endsWith('.json'));
    const record = JSON.parse(readFileSync(join(svc.folder, 'backup', file as string), 'utf8'));
    assert.equal(record.payload.note, note);
    assert.ok(Date.parse(record.occurredAt) > 0);
    assert.equal(Buffer.from(record.valueBase64, 'base64')[0], 0);
  });

  describe('a registry that is away', () => {
    let own: OwnRegistry;
    before(async () => {
      own = await startOwnSchemaRegistry();
    });
    after(() => own.stop());
    afterEach(async () => {
      own.resume();
      await own.restart();
    });

    const typesIn = async (topic: string, count: number, url: string): Promise<unknown[]> => {
      const reader = createAvroReader({ url });
      const records = await kafka.read(topic, { count, timeoutMs: 30_000 });
      const events = await Promise.all(records.map((record) => reader.read(bytesOf(record))));
      return events.map((event) => (event as { payload: { n: number } }).payload.n);
    };

    it('wait: the events are sent once it is back, in order', async () => {
      await own.kill();
      const topic = await freshTopic('wait');
      const svc = svcOn(topic, {}, {}, own.url);
      const at = performance.now();
      const sent = Array.from({ length: 20 }, (_, n) =>
        svc.service.producer.publish({ n }, { eventType: 'COUNTED', key: 'k' }),
      );
      await sleep(1_500);
      assert.match(svc.lines.join('\n'), /error: serde: events without a known schema id wait for it/);
      assert.equal(svc.lines.length, 1, svc.lines.join('\n'));
      await own.restart();
      const outcomes = await Promise.all(sent);
      assert.ok(outcomes.every(({ outcome }) => outcome === 'published'));
      assert.ok(performance.now() - at < 28_000);
      assert.deepEqual(
        await typesIn(topic, 20, own.url),
        Array.from({ length: 20 }, (_, n) => n),
      );
      assert.ok(svc.info.includes('serde: the schema registry answers again'));
    });

    it('holds no captured call longer than max-wait-ms, and loses none where the process ends meanwhile', async () => {
      const topic = await freshTopic('held');
      await own.pause();
      const app = mkdtempSync(join(folder, 'held-'));
      const svc = {
        broker: { bootstrapServers: kafka.brokers, topic, maxWaitMs: 300 },
        serde: { type: 'AVRO', schemaRegistryUrl: own.url },
        shutdown: { timeoutMs: 2_000 },
        idGenerator: { type: 'uuidv7' },
        targets: [{ module: './orders.mjs', function: 'place', eventType: 'PLACED' }],
      };
      writeFiles(app, {
        'svc.config.json': JSON.stringify({ svc, management: { server: { port: 0 } } }),
        'orders.mjs': 'export async function place(n) { return { n }; }\n',
        'main.mjs': `import { place } from './orders.mjs';
          for (let n = 0; n < 3; n++) {
            const at = performance.now();
            await place(n);
            console.log(performance.now() - at);
          }`,
      });
      const args = ['--import', join(import.meta.dirname, '../../dist/register.mjs'), 'main.mjs'];
      const { code, stdout, stderr } = await runApp({ node: process.execPath, cwd: app, args });
      assert.equal(code, 0, stderr);
      const heldMs = stdout.trim().split('\n').map(Number);
      assert.equal(heldMs.length, 3);
      assert.ok(
        heldMs.every((ms) => ms < 1_500),
        stdout,
      );
      own.resume();
      const restored = await runSvc(['backup', 'restore'], { cwd: app });
      assert.equal(restored.code, 0, restored.stderr);
      // Each has a key of its own, and so a partition.
      assert.deepEqual((await typesIn(topic, 3, own.url)).sort(), [0, 1, 2]);
    });

    for (const trouble of ['refuses connections', 'hangs'])
      it(`backup, where it ${trouble}: events wait there as JSON with the name of their schema, and come back as Avro`, async () => {
        if (trouble === 'hangs') await own.pause();
        else await own.kill();
        const topic = await freshTopic('backup');
        const dlqTopic = await freshTopic('dead');
        const serde = { onRegistryUnavailable: 'backup' };
        const svc = svcOn(topic, serde, { dlqTopic }, own.url);
        const outcomes = await Promise.all(
          Array.from({ length: 5 }, (_, n) =>
            svc.service.producer.publish({ n }, { eventType: 'COUNTED', key: 'k', timeoutMs: 20_000 }),
          ),
        );
        assert.deepEqual(
          outcomes.map(({ outcome }) => outcome),
          Array.from({ length: 5 }, () => 'backup'),
        );
        assert.deepEqual(
          svc.backup().map(({ payload }) => payload),
          Array.from({ length: 5 }, (_, n) => ({ n })),
        );
        if (trouble === 'hangs') own.resume();
        else await own.restart();
        assert.deepEqual(await typesIn(topic, 5, own.url), [0, 1, 2, 3, 4]);
        assert.equal(await kafka.count(dlqTopic), 0);
      });
  });
});
