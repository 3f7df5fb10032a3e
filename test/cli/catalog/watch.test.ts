import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { appendFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import kafkajs from 'kafkajs';
import { newTopic } from '../../contract/broker.ts';
import { hostEnvironment, writeFiles } from '../../e2e/support/run-app.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { groupIds } from '../../support/group-ids.ts';
import { startKafka, type TestKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { runSvc } from '../../support/run-svc.ts';

const main = resolve(import.meta.dirname, '../../../src/cli/main.ts');
const config = (topic: string, broker = '') => `
svc:
  broker: { ${broker}topic: ${topic} }
  targets:
    - { module: ./src/orders.js, function: createOrder, eventType: ORDER_CREATED, payload: "{ orderId: #result.id, byUser: #result.byUser }" }
`;
const files = (topic: string, broker?: string) => ({
  'package.json': '{ "name": "shop", "type": "module" }',
  'svc.config.yaml': config(topic, broker),
  'src/orders.js': 'export const createOrder = () => ({ id: 1, byUser: {}, count: 1, paymentId: 1 });',
});
const envelope = (eventType: string, payload: unknown, serviceName: string | null = 'shop') => ({
  ...{
    eventId: '7',
    eventType,
    occurredAt: '2026-11-21T08:34:44.548Z',
    publishedAt: '2026-11-21T08:34:44.549Z',
  },
  ...{ severity: 'INFO', metadata: { source: { serviceName }, tags: {} }, payload },
});
/** What no file may hold. */
const secrets = /topsecret|4711|alice|550e8400/;
const events = [
  envelope('ORDER_CREATED', { orderId: 4711, byUser: { 'alice@example.com': { count: 1 } } }),
  envelope('ORDER_CREATED', {
    orderId: 4712,
    byUser: { '550e8400-e29b-41d4-a716-446655440000': { count: null } },
  }),
  envelope('PAID', { paymentId: 'topsecret' }),
  envelope('BILLED', { id: 'topsecret' }, 'billing'),
  envelope('USER_4711_CREATED', { id: 1 }),
  { some: 'topsecret' },
];
const learned = {
  ORDER_CREATED: {
    type: 'object',
    properties: {
      byUser: {
        type: 'object',
        properties: {},
        required: [],
        additionalProperties: {
          type: 'object',
          properties: { count: { type: ['integer', 'null'] } },
          required: ['count'],
        },
      },
      orderId: { type: 'integer' },
    },
    required: ['byUser', 'orderId'],
  },
  PAID: { type: 'object', properties: { paymentId: { type: 'string' } }, required: ['paymentId'] },
};

function payloadsIn(folder: string): Record<string, unknown> {
  const { events: found } = JSON.parse(
    readFileSync(join(folder, 'event-catalog/svc.catalog.json'), 'utf8'),
  ) as { events: Record<string, { payload: unknown }> };
  return Object.fromEntries(Object.entries(found).map(([type, { payload }]) => [type, payload]));
}

function assertNoSecret(folder: string, ...outputs: string[]): void {
  const all = readdirSync(join(folder, 'event-catalog'), { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile())
    .map((each) => readFileSync(join(each.parentPath, each.name), 'utf8'));
  assert.ok(all.length > 4);
  for (const text of [...all, ...outputs]) assert.doesNotMatch(text, secrets);
}

describe('svc catalog --watch', function () {
  this.timeout(180_000);
  let folder: string;
  const svc = (...args: string[]) => runSvc(['catalog', ...args], { cwd: folder });
  const soon = () => new Date(Date.now() + 500).toISOString();
  beforeEach(() => {
    folder = temporaryFolder('catalog');
  });

  const lineOf = (value: object) =>
    `${JSON.stringify({ key: '1', timestamp: Date.now(), headers: { 'content-type': 'application/json' }, value })}\n`;
  const put = (name: string, all: readonly object[]) =>
    writeFiles(folder, { [`svc-topics/${name}.ndjson`]: all.map(lineOf).join('') });

  it('learns from topic files: types, and no value, nor a name that is data', async () => {
    writeFiles(folder, files('orders.v1'));
    put('orders.v1', events);
    const { code, stdout, stderr } = await svc('--watch', '--since', '1h', '--until', soon());
    assert.equal(code, 0, stderr);
    assert.deepEqual(payloadsIn(folder), learned);
    assert.match(stderr, /^3 events of 2 types, 2 left out, of other services or types, 1 no events of svc/m);
    assertNoSecret(folder, stdout, stderr);
    const after = await svc('--check');
    assert.deepEqual([after.code, after.stdout], [0, '']);
  });

  it('widens what it knew, names what can break consumers, and --against tells it in CI', async () => {
    writeFiles(folder, files('orders.v1'));
    put('orders.v1', events);
    await svc('--watch', '--since', '1h', '--until', soon());
    writeFiles(folder, { 'base.json': readFileSync(join(folder, 'event-catalog/svc.catalog.json'), 'utf8') });
    put('orders.v1', [envelope('ORDER_CREATED', { orderId: null }), envelope('PAID', { paymentId: 7 })]);
    const { stdout } = await svc('--watch', '--since', '1h', '--until', soon());
    const lines = [
      'BREAKS  ORDER_CREATED payload.byUser: can now be missing',
      'BREAKS  ORDER_CREATED payload.orderId: can now be null',
      'BREAKS  PAID payload.paymentId: was string, is string or integer',
    ];
    assert.deepEqual(stdout.trimEnd().split('\n'), lines);
    const check = await svc('--check', '--against', 'base.json');
    assert.deepEqual([check.code, check.stdout.trimEnd().split('\n')], [1, lines]);
    assert.equal((await svc('--check')).code, 0);
  });

  it('waits for a topic that is not there yet, follows the configuration, and keeps what it learned when Ctrl-C ends it', async () => {
    writeFiles(folder, files('orders.v1'));
    const child = spawn(process.execPath, [main, 'catalog', '--watch'], {
      cwd: folder,
      env: hostEnvironment(),
    });
    let [out, err] = ['', ''];
    const until = (test: () => boolean) =>
      new Promise<void>((done) => {
        const look = () => test() && done();
        child.stdout.on('data', look);
        child.stderr.on('data', look);
        look();
      });
    child.stdout.on('data', (text) => {
      out += text;
    });
    child.stderr.on('data', (text) => {
      err += text;
    });
    await until(() => err.includes('there is no topic file'));
    put('orders.v1', events.slice(0, 1));
    await until(() => out.includes('ORDER_CREATED'));
    const topicFile = join(folder, 'svc-topics/orders.v1.ndjson');
    await appendFile(topicFile, lineOf(envelope('PAID', { paymentId: 'topsecret' })));
    await until(() => out.includes('PAID: is new'));
    const text = readFileSync(join(folder, 'svc.config.yaml'), 'utf8');
    writeFiles(folder, { 'svc.config.yaml': text.replace('byUser: #result.byUser', 'total: #result.total') });
    await appendFile(topicFile, lineOf(envelope('ORDER_CREATED', { orderId: 2, total: 1.5 })));
    await until(() => out.includes('BREAKS  ORDER_CREATED payload.byUser: is removed'));
    child.kill('SIGINT');
    const code = await new Promise((done) => child.once('close', done));
    assert.equal(code, 0, err);
    assert.match(err, /^stopped on request: what was learned is in event-catalog$/m);
    assert.deepEqual(payloadsIn(folder), {
      ORDER_CREATED: {
        type: 'object',
        properties: { orderId: { type: 'integer' }, total: { type: 'number' } },
        required: ['orderId'],
      },
      PAID: learned.PAID,
    });
    assertNoSecret(folder, out, err);
  });

  it('that reads no topic says so, exit code 1', async () => {
    writeFiles(folder, files('orders.v1'));
    const { code, stderr } = await svc(
      '--watch',
      '--since',
      '1h',
      '--until',
      new Date(Date.now() - 1_000).toISOString(),
    );
    assert.equal(code, 1);
    assert.match(stderr, /there is no topic file/);
    assert.ok(existsSync(join(folder, 'event-catalog/svc.catalog.json')));
  });

  requiring('kafka', 'from Kafka', () => {
    let kafka: TestKafka;
    before(async () => {
      kafka = await startKafka();
    });

    it('learns the same, without a consumer group', async () => {
      const topic = newTopic();
      // Of several the client sends all again where one has no leader yet.
      await kafka.createTopic(topic, { partitions: 1 });
      const client = new kafkajs.Kafka({ brokers: [...kafka.brokers], logLevel: kafkajs.logLevel.NOTHING });
      const [producer, admin] = [client.producer(), client.admin()];
      await Promise.all([producer.connect(), admin.connect()]);
      await producer.send({
        topic,
        messages: events.map((value, at) => ({ key: String(at), value: JSON.stringify(value) })),
      });
      writeFiles(
        folder,
        files(topic, `bootstrap-servers: [${kafka.brokers.map((each) => `'${each}'`).join(', ')}], `),
      );
      const before = (await groupIds(admin)).length;
      const { code, stdout, stderr } = await svc('--watch', '--since', '1h', '--until', soon(), '--json');
      const after = (await groupIds(admin)).length;
      await Promise.all([producer.disconnect(), admin.disconnect()]);
      assert.equal(code, 0, stderr);
      const { events: count, leftOut, notReadable } = JSON.parse(stdout) as Record<string, number>;
      assert.deepEqual([count, leftOut, notReadable, after], [3, 2, 1, before], stderr);
      assert.deepEqual(payloadsIn(folder), learned);
      assertNoSecret(folder, stdout, stderr);
    });
  });
});
