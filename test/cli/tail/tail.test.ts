import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import avsc from 'avsc';
import kafkajs from 'kafkajs';
import { createSealer } from '../../../src/protect/keys/create-sealer.ts';
import { newTopic } from '../../contract/broker.ts';
import { hostEnvironment } from '../../e2e/support/run-app.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { groupIds } from '../../support/group-ids.ts';
import { startKafka, type TestKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { runSvc } from '../../support/run-svc.ts';
import { startSchemaRegistry } from '../../support/schema-registry.ts';

const main = resolve(import.meta.dirname, '../../../src/cli/main.ts');
// biome-ignore lint/suspicious/noExplicitAny: what a line holds is asserted
type Line = Record<string, any>;
const linesOf = (stdout: string) =>
  stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line);

requiring('kafka', 'svc tail', function () {
  this.timeout(180_000);
  let kafka: TestKafka;
  let client: kafkajs.Kafka;
  let producer: kafkajs.Producer;
  let folder: string;
  before(async () => {
    kafka = await startKafka();
    folder = temporaryFolder('tail');
    client = new kafkajs.Kafka({ brokers: [...kafka.brokers], logLevel: kafkajs.logLevel.NOTHING });
    producer = client.producer();
    await producer.connect();
  });
  after(async () => {
    await producer?.disconnect();
  });

  const event = (id: number, eventType = 'ORDER_CREATED', headers: object = {}) => ({
    key: String(id),
    value: JSON.stringify({ eventId: String(id), eventType, payload: { id } }),
    headers: { eventType, ...headers },
  });
  async function topicWith(
    messages: kafkajs.Message[],
    compression = kafkajs.CompressionTypes.None,
  ): Promise<string> {
    const topic = newTopic();
    await kafka.createTopic(topic, { partitions: 3 });
    if (messages.length > 0) await producer.send({ topic, messages, compression });
    return topic;
  }
  const tail = (topic: string, ...args: string[]) =>
    runSvc(['tail', topic, '--broker', kafka.brokers.join(','), ...args], { cwd: folder });

  it('shows what lies there, compressed as well, up to now, and leaves no consumer group behind', async () => {
    const topic = await topicWith(
      [1, 2, 3, 4].map((id) => event(id)),
      kafkajs.CompressionTypes.GZIP,
    );
    const admin = client.admin();
    await admin.connect();
    const before = await groupIds(admin);
    const { code, stdout, stderr } = await tail(
      topic,
      '--since',
      '1h',
      '--until',
      new Date(Date.now() + 1_000).toISOString(),
      '--json',
    );
    const after = await groupIds(admin);
    await admin.disconnect();
    assert.deepEqual([code, stderr], [0, '4 events\n']);
    const shown = linesOf(stdout);
    assert.deepEqual(shown.map(({ value }) => value.payload.id).sort(), [1, 2, 3, 4]);
    const { key, headers, at } = shown[0] as Line;
    assert.equal(headers.eventType, 'ORDER_CREATED');
    assert.ok(Number(key) > 0 && Date.parse(at) > Date.now() - 60_000);
    assert.deepEqual(after, before);
  });

  it('filters by headers, without looking at values, and ends at its limit', async () => {
    const topic = await topicWith([
      event(1),
      event(2, 'ORDER_CANCELLED', { tenant: 'acme' }),
      { ...event(3, 'BROKEN'), value: 'not json \u001b[31m' },
      event(4, 'ORDER_CANCELLED', { tenant: 'other' }),
    ]);
    const cancelled = await tail(
      topic,
      '--since',
      '1h',
      '--type',
      'ORDER_CANCELLED',
      '--header',
      'tenant=acme',
      '--limit',
      '1',
    );
    assert.equal(cancelled.code, 0, cancelled.stderr);
    assert.match(cancelled.stdout, /^\S+Z {2}\d\/0 {2}ORDER_CANCELLED {2}2 {2}\{"id":2\}\n$/);
    const broken = await tail(topic, '--since', '1h', '--type', 'BROKEN', '--limit', '1');
    assert.equal(broken.code, 1);
    assert.match(broken.stdout, /BROKEN {2}3 {2}\(its value is neither JSON nor Avro\)\n$/);
    assert.match(broken.stderr, /1 event,.* 1 not readable\n$/);
  });

  it('without --since shows what comes from now on, until Ctrl-C, and a closed pipe ends it', async () => {
    const topic = await topicWith([event(1)]);
    const run = (then: string) =>
      spawn(
        'bash',
        [
          '-c',
          `'${process.execPath}' '${main}' tail ${topic} --json --broker ${kafka.brokers.join(',')} ${then}`,
        ],
        {
          ...{ cwd: folder, env: hostEnvironment(), stdio: ['ignore', 'pipe', 'pipe'], detached: true },
        },
      );
    const child = run('');
    const head = run('| head -1');
    const [lines, said, first] = [text(child.stdout), text(child.stderr), text(head.stdout)];
    let id = 10;
    const sending = setInterval(() => void producer.send({ topic, messages: [event(id++)] }), 500);
    const ended = new Promise((done) => head.once('close', done));
    await Promise.race([ended, sleep(60_000)]);
    process.kill(-(child.pid as number), 'SIGINT');
    await new Promise((done) => child.once('close', done));
    clearInterval(sending);
    assert.equal(linesOf(await first).length, 1);
    const shown = linesOf(await lines);
    assert.ok(shown.length > 0 && shown.every(({ value }) => value.payload.id >= 10));
    assert.match(await said, /\d+ events?; stopped on request\n$/);
    assert.equal(child.exitCode, 0);
  });

  it('decrypts with keys alone', async () => {
    const key = Buffer.alloc(32, 7).toString('base64');
    const place = { keyId: undefined, eventType: 'A', path: 'email' };
    const secret = createSealer({ keys: [{ id: 'default', key }], format: 'v1' }).encrypt(
      'jo@example.com',
      place,
    );
    const value = JSON.stringify({
      eventId: '382448737393414144',
      eventType: 'A',
      payload: { email: secret },
    });
    const topic = await topicWith([{ key: 'k', value, headers: { eventType: 'A' } }]);
    const keys = join(folder, 'keys.json');
    writeFileSync(keys, JSON.stringify({ keys: [{ id: 'default', key }] }));
    const closed = await tail(topic, '--since', '1h', '--limit', '1');
    assert.ok(closed.stdout.includes(secret), closed.stdout + closed.stderr);
    const open = await tail(topic, '--since', '1h', '--limit', '1', '--keys-file', keys);
    assert.match(open.stdout, /\{"email":"jo@example\.com"\}\n$/, open.stderr);
  });

  for (const [title, args, says] of [
    ['since in the future', ['--since', '2126-01-01'], /--since is in the future/],
    ['since that is no time', ['--since', 'yesterday'], /--since takes a time such as/],
    ['since behind until', ['--since', '1h', '--until', '2h'], /--since is not before --until/],
    ['until that is past alone', ['--until', '2h'], /Without --since, only new events/],
    ['a limit of none', ['--limit', '0'], /--limit takes a number of events, from 1/],
    ['a header without a value', ['--header', 'tenant'], /--header takes name=value/],
  ] as const)
    it(`${title} is a wrong use`, async () => {
      const { code, stdout, stderr } = await tail('any', ...args);
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(stderr, says);
    });

  it('reads CloudEvents in both modes as the envelopes that they stand for', async () => {
    const key = Buffer.alloc(32, 5).toString('base64');
    const sealer = createSealer({ keys: [{ id: 'k1', key }], format: 'v1' });
    const email = sealer.encrypt('a@b.example', { keyId: undefined, eventType: 'ORDER', path: 'email' });
    const keysFile = join(folder, 'keys-of-cloudevents.json');
    writeFileSync(keysFile, JSON.stringify({ keys: [{ id: 'k1', key }] }));
    const attributes = { specversion: '1.0', source: '/o', type: 'ORDER', subject: 'ö', userid: 'u-1' };
    const inHeaders = Object.entries({ ...attributes, id: '1' }).map(([name, text]) => [`ce_${name}`, text]);
    const topic = await topicWith([
      {
        headers: { eventType: 'ORDER', ...Object.fromEntries(inHeaders) },
        value: JSON.stringify({ email }),
      },
      {
        headers: { eventType: 'ORDER', 'content-type': 'application/cloudevents+json' },
        value: JSON.stringify({ ...attributes, id: '2', data: { email } }),
      },
      { headers: { 'content-type': 'application/cloudevents+json' }, value: '{"secret":1}' },
    ]);
    const window = ['--since', '1h', '--until', '0s', '--keys-file', keysFile];
    const json = await tail(topic, ...window, '--json');
    const lines = linesOf(json.stdout);
    const shown = lines
      .filter(({ value }) => value !== null)
      .sort((a, b) => a.value.eventId - b.value.eventId);
    assert.deepEqual(
      shown.map(({ value: { eventId, eventType, metadata, payload } }) => [
        ...[eventId, eventType, metadata.actor.userId],
        payload,
      ]),
      ['1', '2'].map((id) => [id, 'ORDER', 'u-1', { email: 'a@b.example' }]),
    );
    assert.deepEqual(
      lines.flatMap(({ problem }) => problem ?? []),
      ['this is not an envelope of svc: its CloudEvent lacks id, type, source or specversion, or is a batch'],
    );
    const people = await tail(topic, ...window, '--type', 'ORDER');
    assert.equal(people.stdout.match(/ORDER {2}- {2}\{"email":"a@b\.example"\}/g)?.length, 2, people.stdout);
  });

  it('says that there is no such topic, and makes none', async () => {
    const topic = newTopic();
    const { code, stderr } = await tail(topic, '--since', '1h');
    assert.deepEqual([code, stderr], [1, `svc: Kafka has no topic "${topic}"\n`]);
  });

  it('follows topic files, of applications without a broker', async () => {
    const line = (id: number) =>
      `${JSON.stringify({ key: String(id), headers: { eventType: 'A' }, timestamp: Date.now() })}`.replace(
        /\}$/,
        `,"value":{"payload":{"id":${id}}}}\n`,
      );
    writeFileSync(join(folder, 'orders.ndjson'), line(1) + line(2));
    const config = join(folder, 'files.json');
    // Named, or what an application without brokers does by itself.
    for (const client of ['file', undefined]) {
      const broker = { client, topic: 'orders', file: { path: folder } };
      writeFileSync(config, JSON.stringify({ svc: { broker } }));
      const { code, stdout } = await runSvc(
        ['tail', 'orders', '--config', config, '--since', '1h', '--limit', '2', '--json'],
        { cwd: folder },
      );
      assert.deepEqual([code, linesOf(stdout).map(({ value }) => value.payload.id)], [0, [1, 2]]);
    }
  });
});

requiring(['kafka', 'schema-registry'], 'svc tail with a schema registry', function () {
  this.timeout(120_000);
  it('reads Avro', async () => {
    const [kafka, registry] = await Promise.all([startKafka(), startSchemaRegistry()]);
    const schema = JSON.stringify({
      type: 'record',
      name: 'Order',
      fields: [{ name: 'orderId', type: 'long' }],
    });
    const topic = newTopic();
    await kafka.createTopic(topic);
    const answer = await fetch(`${registry.url}/subjects/${topic}-value/versions`, {
      ...{ method: 'POST', headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' } },
      body: JSON.stringify({ schema }),
    });
    const { id } = (await answer.json()) as { id: number };
    const head = Buffer.alloc(5);
    head.writeInt32BE(id, 1);
    const value = Buffer.concat([head, avsc.Type.forSchema(JSON.parse(schema)).toBuffer({ orderId: 7 })]);
    const producer = new kafkajs.Kafka({ brokers: [...kafka.brokers] }).producer();
    await producer.connect();
    await producer.send({ topic, messages: [{ value }] });
    await producer.disconnect();
    const folder = temporaryFolder('tail-avro');
    const config = join(folder, 'svc.config.json');
    writeFileSync(
      config,
      JSON.stringify({ svc: { serde: { schemaRegistryUrl: registry.url }, broker: { topic } } }),
    );
    const { code, stdout, stderr } = await runSvc(
      ['tail', topic, '--broker', kafka.brokers.join(','), '--since', '1h', '--limit', '1', '--json'],
      { cwd: folder },
    );
    assert.equal(code, 0, stderr + stdout);
    assert.deepEqual(linesOf(stdout)[0]?.value, { orderId: 7 });
  });
});
