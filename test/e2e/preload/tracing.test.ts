import assert from 'node:assert/strict';
import { startKafka, type TestKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { telemetryApp } from '../support/apps.ts';
import { otelEnvironment, otelFiles, type SdkSeen, type SeenSpan } from '../support/otel-app.ts';
import { type AppEnd, endOf, type TopicRecord } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

/** What the application prints at its end. */
interface Seen extends SdkSeen {
  /** The application's own spans: around the first call, and around the second one. */
  readonly requests: readonly (Pick<SeenSpan, 'traceId' | 'spanId'> | null)[];
}

const orders = `async function order(id) { await null; return { id }; }`;
/** One call before the SDK may be there, one after `startSdk`. Both inside a span of the application. */
const calls = (startSdk: string): string => `
  const requests = [];
  const request = (id) => trace.getTracer('application').startActiveSpan('request', async (span) => {
    const { traceId, spanId } = span.spanContext();
    requests.push(span.isRecording() ? { traceId, spanId } : null);
    await order(id);
    span.end();
  });
  const main = async () => {
    await request(1);
    ${startSdk}
    await request(2);
    const seen = await globalThis.sdkSeen?.();
    console.log(JSON.stringify({ requests, spans: [], metrics: {}, ...seen }));
  };
  main();`;
const esmApp = (startSdk = ''): string =>
  `import { trace } from '@opentelemetry/api';\n${orders}\n${calls(startSdk)}`;
const cjsApp = (startSdk = ''): string =>
  `const { trace } = require('@opentelemetry/api');\n${orders}\n${calls(startSdk)}`;

const cases: readonly [title: string, args: readonly string[], main: string, recordsFirst: boolean][] = [
  ['no SDK', ['--import', 'svc/register', 'main.mjs'], esmApp(), false],
  ['the SDK before svc', ['--import', './sdk.mjs', '--import', 'svc/register', 'main.mjs'], esmApp(), true],
  ['the SDK after svc', ['--import', 'svc/register', '--import', './sdk.mjs', 'main.mjs'], esmApp(), true],
  [
    'an SDK that the application starts late',
    ['--import', 'svc/register', 'main.mjs'],
    esmApp(`await import('./sdk.mjs');`),
    false,
  ],
  [
    'CommonJS, the SDK before svc',
    ['--require', './sdk.cjs', '--require', 'svc/register', 'main.cjs'],
    cjsApp(),
    true,
  ],
  [
    'CommonJS, the SDK after svc',
    ['--require', 'svc/register', '--require', './sdk.cjs', 'main.cjs'],
    cjsApp(),
    true,
  ],
  [
    'CommonJS, an SDK that the application starts late',
    ['--require', 'svc/register', 'main.cjs'],
    cjsApp(`require('./sdk.cjs');`),
    false,
  ],
  [
    'an ES module application with the SDK of a CommonJS preload',
    ['--require', './sdk.cjs', '--import', 'svc/register', 'main.mjs'],
    esmApp(),
    true,
  ],
];

describe('tracing beside OpenTelemetry', function () {
  this.timeout(180_000);
  let app: string;

  before('npm install', async () => {
    app = await telemetryApp();
  });

  for (const [title, args, main, recordsFirst] of cases) {
    it(title, async () => {
      const file = args.at(-1) as string;
      const target = { module: `./${file}`, function: 'order', eventType: 'ORDERED' };
      const end = await endOf({
        app,
        args,
        env: otelEnvironment,
        files: { ...otelFiles, 'svc.config.json': configOf([target]), [file]: main },
      });
      const seen = seenBy(end);
      const hasSdk = title !== 'no SDK';
      const events = end.topics.events ?? [];
      assert.deepEqual(
        events.map(({ value }) => value.payload),
        [{ id: 1 }, { id: 2 }],
      );
      for (const record of events) hasValidIds(record);
      assert.deepEqual(
        seen.requests.map((request) => request !== null),
        [recordsFirst, hasSdk],
      );
      const sent = seen.spans.filter(({ kind }) => kind === 3);
      const recorded = events.filter((_, index) => seen.requests[index] !== null);
      assert.equal(sent.length, recorded.length);
      for (const [index, record] of recorded.entries()) {
        const { value } = record;
        const request = seen.requests[events.indexOf(record)];
        const span = sent[index] as SeenSpan;
        assert.equal(value.metadata.trace.spanId, span.spanId);
        assert.equal(span.parentSpanId, request?.spanId);
        assert.equal(value.metadata.trace.parentSpanId, request?.spanId);
        assert.equal(value.metadata.trace.traceId, request?.traceId);
        assert.equal(span.name, 'send events');
        assert.equal(span.scope, 'svc');
        assert.deepEqual(span.attributes, {
          'messaging.system': 'file',
          'messaging.destination.name': 'events',
          'messaging.operation.name': 'send',
          'messaging.operation.type': 'send',
          'messaging.message.id': value.eventId,
        });
      }
      if (hasSdk) hasMetrics(seen, events.length);
    });
  }
});

requiring('kafka', 'tracing with the instrumentation of kafkajs', function () {
  this.timeout(180_000);
  let app: string;
  let kafka: TestKafka;

  before('Kafka and npm install', async () => {
    kafka = await startKafka();
    app = await telemetryApp();
  });

  it("makes one span an event: svc's, which the record names", async () => {
    const topic = `traced.${Date.now()}`;
    await kafka.createTopic(topic);
    const end = await endOf({
      app,
      args: ['--require', './sdk.cjs', '--import', 'svc/register', 'main.cjs'],
      env: { ...otelEnvironment, KAFKA_BROKERS: kafka.brokers.join(',') },
      timeoutMs: 40_000,
      files: {
        ...otelFiles,
        'svc.config.json': configOf([{ module: './main.cjs', function: 'order', eventType: 'ORDERED' }], {
          broker: { topic },
        }),
        'main.cjs': `
          const { Kafka, logLevel } = require('kafkajs');
          ${orders}
          const main = async () => {
            await order(1);
            // The application's own sends keep the spans of the instrumentation.
            const kafka = new Kafka({ brokers: process.env.KAFKA_BROKERS.split(','), logLevel: logLevel.NOTHING });
            const producer = kafka.producer({ createPartitioner: require('kafkajs').Partitioners.DefaultPartitioner });
            await producer.connect();
            await producer.send({ topic: '${topic}', messages: [{ value: 'own' }] });
            await producer.disconnect();
            console.log(JSON.stringify({ requests: [], ...(await globalThis.sdkSeen()) }));
          };
          main();`,
      },
    });
    const { spans, metrics } = seenBy(end);
    const producers = spans.filter(({ kind }) => kind === 3);
    assert.deepEqual(
      producers.map(({ name, scope }) => [name, scope]),
      [
        [`send ${topic}`, 'svc'],
        [producers[1]?.name, '@opentelemetry/instrumentation-kafkajs'],
      ],
    );
    const [own] = producers as [SeenSpan];
    assert.equal(own.attributes['messaging.system'], 'kafka');
    const [record] = await kafka.read(topic, { count: 2 });
    const event = JSON.parse(record?.value ?? '');
    assert.equal(record?.headers.traceparent, `00-${own.traceId}-${own.spanId}-01`);
    assert.equal(event.metadata.trace.spanId, own.spanId);
    assert.equal(event.metadata.trace.traceId, own.traceId);
    assert.equal(metrics['svc.events.published']?.[0]?.value, 1);
  });
});

function seenBy(end: AppEnd): Seen {
  assert.equal(end.code, 0, end.stderr);
  assert.doesNotMatch(end.stderr, /duplicate|already registered|Error/i);
  return JSON.parse(end.stdout) as Seen;
}

function hasValidIds({ value, headers }: TopicRecord): void {
  const { traceId, spanId } = value.metadata.trace;
  assert.match(traceId, /^(?!0+$)[0-9a-f]{32}$/);
  assert.match(spanId, /^(?!0+$)[0-9a-f]{16}$/);
  assert.equal(headers.traceparent, `00-${traceId}-${spanId}-01`);
}

/** Counters are read from the ledger, so they hold what was published before the SDK came; the histogram starts with it. */
function hasMetrics({ metrics, requests }: Seen, publishedCount: number): void {
  const of = (name: string): unknown[] =>
    (metrics[name] ?? []).map(({ attributes, value }) => [attributes.eventType, value]);
  assert.deepEqual(of('svc.events.published'), [['ORDERED', publishedCount]]);
  assert.deepEqual(of('svc.events.lost'), [['ORDERED', 0]]);
  const [duration] = metrics['svc.events.publish.duration'] ?? [];
  assert.equal(
    (duration?.value as { count: number } | undefined)?.count,
    requests.filter((request) => request !== null).length,
  );
}
