import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { plainApp } from '../e2e/support/apps.ts';
import { type AppOptions, type RunningApp, startApp } from '../e2e/support/start-app.ts';
import { type ReadRecord, startKafka, type TestKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';

const example = resolve(import.meta.dirname, '../../examples/orders');

/** The example as it stands in the repository. */
function exampleFiles(): AppOptions['files'] {
  const sources = readdirSync(join(example, 'src')).map((file) => `src/${file}`);
  return Object.fromEntries(
    ['svc.config.yaml', ...sources].map((file) => [file, readFileSync(join(example, file), 'utf8')]),
  );
}

interface Event {
  readonly eventId: string;
  readonly eventType: string;
  readonly [field: string]: unknown;
}

requiring('kafka', 'the example on a real Kafka', function () {
  this.timeout(180_000);
  let kafka: TestKafka;
  let orders: RunningApp;
  let address: string;
  const topic = `orders.${Date.now()}`;
  const product = `product-${Date.now()}`;

  before(async () => {
    kafka = await startKafka();
    await kafka.createTopic(topic, { partitions: 3 });
    await kafka.createTopic('stock.events.v1');
    orders = await startApp({
      app: plainApp(),
      node: process.execPath, // It runs TypeScript, which the oldest Node that svc supports cannot.
      args: ['--import', 'svc/register', 'src/server.ts'],
      files: { ...exampleFiles(), 'package.json': '{ "type": "module" }' },
      env: {
        KAFKA_BROKERS: kafka.brokers.join(','),
        SVC_BROKER_TOPIC: topic,
        SVC_TELEMETRY_SDK: 'none',
        PORT: '0',
      },
      timeoutMs: 120_000,
    });
    address = (await orders.waitFor(/listening on (http:\S+)/))[1] ?? '';
  });
  after(async () => {
    await orders?.kill('SIGTERM');
  });

  const post = (path: string, body: object, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(address + path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', ...headers },
    });

  it('publishes what its functions do, with keys, headers and envelopes', async () => {
    const traceId = '0af7651916cd43dd8448eb211c80319c';
    const created = await post(
      '/orders',
      { customer: 'Ann Lee', email: 'ann.lee@example.com', product, quantity: 2 },
      {
        'x-user-id': 'clerk',
        'x-correlation-id': 'corr-7',
        traceparent: `00-${traceId}-b7ad6b7169203331-01`,
      },
    );
    assert.equal(created.status, 201);
    assert.equal(created.headers.get('x-correlation-id'), 'corr-7');
    const { id } = (await created.json()) as { id: number };
    assert.equal(
      (await post('/orders', { customer: 'Ann Lee', email: 'ann.lee@example.com', product, quantity: 0 }))
        .status,
      400,
    );
    assert.equal((await post(`/orders/${id}/cancel`, { reason: 'too late' })).status, 200);

    const records = await kafka.read(topic, { count: 3 });
    const byType = new Map(records.map((record) => [eventOf(record).eventType, record]));
    assert.deepEqual([...byType.keys()].sort(), ['ORDER_CANCELLED', 'ORDER_CREATED', 'ORDER_STATUS_CHANGED']);
    for (const record of records) {
      const { eventId, eventType } = eventOf(record);
      const { traceparent, ...headers } = record.headers;
      assert.deepEqual(headers, { eventId, eventType, 'content-type': 'application/json' });
      assert.match(traceparent ?? '', /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    }

    const order = byType.get('ORDER_CREATED') as ReadRecord;
    assert.equal(order.key, String(id));
    const event = eventOf(order);
    const { eventId, occurredAt, publishedAt, metadata, ...rest } = event as Event & {
      metadata: { trace: { spanId: string }; source: { hostname: string } };
      occurredAt: string;
      publishedAt: string;
    };
    assert.match(eventId, /^\d{15,19}$/);
    for (const time of [occurredAt, publishedAt])
      assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.ok(occurredAt <= publishedAt);
    assert.equal(order.headers.traceparent, `00-${traceId}-${metadata.trace.spanId}-01`);
    assert.deepEqual(rest, {
      eventType: 'ORDER_CREATED',
      severity: 'INFO',
      payload: {
        ...{ id, customer: 'A****', email: 'an*****@ex*****.com' },
        ...{ product, quantity: 2, status: 'OPEN' },
      },
    });
    assert.deepEqual(metadata, {
      source: { serviceName: 'orders', serviceVersion: '1.4.0', hostname: metadata.source.hostname },
      actor: { userId: 'clerk', sessionId: null },
      trace: { traceId, spanId: metadata.trace.spanId, parentSpanId: 'b7ad6b7169203331' },
      correlationId: 'corr-7',
      clientIp: '127.0.0.1',
      tags: {},
    });

    const cancelled = byType.get('ORDER_CANCELLED') as ReadRecord;
    assert.equal(cancelled.key, String(id));
    assert.deepEqual(eventOf(cancelled).payload, { orderId: id, reason: 'too late', status: 'CANCELLED' });
    assert.equal(eventOf(cancelled).severity, 'WARN');
    const changed = byType.get('ORDER_STATUS_CHANGED') as ReadRecord;
    assert.equal(changed.key, eventOf(changed).eventId);
    assert.deepEqual(eventOf(changed).payload, { orderId: id, status: 'CANCELLED' });
  });

  it('publishes to the topic that a target names', async () => {
    const records = await kafka.read('stock.events.v1', { count: 1 });
    const record = records.find(({ key }) => key === product) as ReadRecord;
    assert.deepEqual(eventOf(record).payload, { product, reserved: 2 });
  });

  it('ends as the application wants it to', async () => {
    const end = await orders.kill('SIGTERM');
    assert.deepEqual([end.code, end.signal], [0, null], end.stderr);
    assert.doesNotMatch(end.stderr, /error|warn/i);
  });
});

function eventOf(record: ReadRecord): Event {
  return JSON.parse(record.value ?? '');
}
