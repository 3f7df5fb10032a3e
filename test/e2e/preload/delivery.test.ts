import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import kafkajs from 'kafkajs';
import { type OwnKafka, startOwnKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { plainApp, platformaticApp } from '../support/apps.ts';
import { type AppOptions, endOf, type RunningApp, startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

let app: string;
let apps: Readonly<Record<'kafkajs' | 'platformatic', string>>;
before('npm install', function () {
  this.timeout(180_000);
  app = plainApp();
  apps = { kafkajs: app, platformatic: platformaticApp() };
});

const targets = [
  { module: './main.mjs', function: 'order', eventType: 'ORDERED' },
  { module: './main.mjs', function: 'pay', eventType: 'PAID', failOnError: true },
  { module: './main.mjs', function: 'ship', eventType: 'SHIPPED' },
];

/** Calls what it is asked for over HTTP and says how long that took and what came of it. A worker thread is there too. */
const main = `
  import { createServer } from 'node:http';
  import { isMainThread, Worker } from 'node:worker_threads';
  import { onEventLost } from 'svc';
  async function order(id) { return { id }; }
  async function pay(id) { return { id }; }
  function ship(id) { return { id }; }
  const functions = { order, pay, ship };
  if (!isMainThread) {
    await order('worker');
  } else {
    onEventLost(({ eventType, topic, cause }) => console.log('lost ' + eventType + ' ' + topic + ' ' + cause));
    const server = createServer(async (request, response) => {
      const started = performance.now();
      const name = request.url.slice(1);
      const answer = {};
      try {
        answer.result = await functions[name](name);
      } catch (error) {
        answer.error = { name: error.name, code: error.code, message: error.message };
      }
      response.end(JSON.stringify({ ...answer, tookMs: performance.now() - started }));
    });
    const listen = () => server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));
    if (process.env.WITH_WORKER) new Worker(new URL(import.meta.url)).on('exit', listen);
    else listen();
  }`;

interface Answer {
  readonly result?: unknown;
  readonly error?: { name: string; code: string; message: string };
  readonly tookMs: number;
}

interface Client {
  readonly running: RunningApp;
  call(name: string): Promise<Answer>;
  /** Asks the management server. */
  manage(path: string): Promise<{ status: number; text: string }>;
}

/** Neither retries nor a backup: what the last tier says is what these cases are about. */
function withoutTiers({ broker, ...rest }: Record<string, unknown>): Record<string, unknown> {
  const last = { backup: { 'local-enabled': false } };
  return { ...rest, broker: { ...last, ...(broker as object) }, retry: { enabled: false } };
}

async function start(options: Partial<AppOptions>, config: Record<string, unknown> = {}): Promise<Client> {
  const files = { 'main.mjs': main, 'svc.config.json': configOf(targets, withoutTiers(config)) };
  const running = await startApp({ app, timeoutMs: 90_000, files, ...options });
  const [, port] = await running.waitFor(/port (\d+)/);
  const [, management] = await running.waitFor(/svc: management on (http:\S+)\/metrics/);
  const get = async (url: string): Promise<{ status: number; text: string }> => {
    const response = await fetch(url);
    return { status: response.status, text: await response.text() };
  };
  return {
    running,
    call: async (name) => JSON.parse((await get(`http://127.0.0.1:${port}/${name}`)).text),
    manage: (path) => get(`${management}${path}`),
  };
}

for (const vendor of ['kafkajs', 'platformatic'] as const) {
  requiring('own-kafka', `a running application and its Kafka: ${vendor}`, function () {
    this.timeout(120_000);
    let kafka: OwnKafka;
    let client: Client;

    before(async () => {
      kafka = await startOwnKafka();
      await kafka.createTopic('events', { partitions: 2 });
      client = await start(
        { app: apps[vendor], env: { KAFKA_BROKERS: kafka.brokers.join(','), WITH_WORKER: 'yes' } },
        { broker: { client: vendor } },
      );
    });
    after(async () => {
      await client?.running.kill('SIGKILL');
      await kafka?.stop();
    });

    const health = async (): Promise<{
      status: number;
      body: { status: string; details: Record<string, unknown> };
    }> => {
      const { status, text } = await client.manage('/actuator/health/svc');
      return { status, body: JSON.parse(text) };
    };
    /** Health is cached for five seconds. */
    const becomes = async (wanted: number): Promise<Awaited<ReturnType<typeof health>>> => {
      const end = performance.now() + 20_000;
      for (;;) {
        const found = await health();
        if (found.status === wanted || performance.now() > end) return found;
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
    };

    it('is UP, with the id and the size of the real cluster', async () => {
      const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: kafkajs.logLevel.NOTHING }).admin();
      await admin.connect();
      const { clusterId } = await admin.describeCluster();
      await admin.disconnect();
      const { status, body } = await health();
      const { worker, ...details } = body.details;
      assert.match(JSON.stringify(worker), /^\{"id":\d{1,4},"source":"(host|kafka)"\}$/);
      assert.deepEqual(
        { status, body: { ...body, details } },
        {
          status: 200,
          body: {
            status: 'UP',
            details: {
              state: 'HEALTHY',
              brokerProducerInitialized: true,
              clusterId,
              nodeCount: 1,
              topic: 'events',
              dlqTopic: null,
            },
          },
        },
      );
    });

    /** The metrics, as soon as the worker thread's own event is in them: it tells of it every second. */
    const publishedOrders = async (count: number): Promise<Awaited<ReturnType<Client['manage']>>> => {
      const end = performance.now() + 10_000;
      for (;;) {
        const found = await client.manage('/metrics');
        if (found.text.includes(`\nsvc_events_published_total{eventType="ORDERED"} ${count}\n`)) return found;
        assert.ok(performance.now() < end, found.text);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    };

    it('publishes, and shows the counts, the worker thread’s as well, which has no server of its own', async () => {
      for (const name of ['order', 'pay', 'ship'])
        assert.deepEqual((await client.call(name)).result, { id: name });
      const { text, status } = await publishedOrders(2);
      assert.equal(status, 200);
      assert.match(text, /^svc_events_publish_duration_seconds_count\{eventType="PAID"\} 1$/m);
      const other = (await client.manage('/actuator/prometheus')).text;
      assert.deepEqual(other.match(/^# TYPE .*$/gm), text.match(/^# TYPE .*$/gm));
      // Three of the main thread, one of the worker.
      assert.equal((await kafka.read('events', { count: 4 })).length, 4);
    });

    it('Kafka dies: calls go on, each lost event is told, health is DOWN', async () => {
      await kafka.kill();
      const order = await client.call('order');
      assert.deepEqual([order.result, order.error], [{ id: 'order' }, undefined]);
      assert.deepEqual((await client.call('ship')).result, { id: 'ship' });
      const { error } = await client.call('pay');
      assert.equal(error?.code, 'SVC_PUBLISH_LOST');
      await client.running.waitFor(/^lost ORDERED events \S+$/m);
      await client.running.waitFor(/^lost PAID events \S+$/m);
      await client.running.waitFor(/^lost SHIPPED events \S+$/m);
      await client.running.waitFor(/^svc: error: event lost: /m);
      const { body } = await becomes(503);
      assert.equal(body.status, 'DOWN');
      assert.match(String(body.details.error), /cannot reach Kafka|events are being lost/);
      assert.match((await client.manage('/metrics')).text, /^svc_events_lost_total\{eventType="PAID"\} 1$/m);
    });

    it('Kafka comes back: it publishes again and is UP', async () => {
      await kafka.restart();
      const order = await client.call('order');
      assert.deepEqual(order.result, { id: 'order' });
      const { body } = await becomes(200);
      assert.equal(body.status, 'UP', JSON.stringify(body));
      assert.equal((await kafka.read('events', { count: 5 })).length, 5);
      const end = await client.running.kill('SIGTERM');
      assert.equal(end.signal, 'SIGTERM');
      for (const line of [/management on/g, /publishing to/g, /targets made no event/g]) {
        assert.ok((end.stderr.match(line)?.length ?? 0) <= 1, end.stderr);
      }
      assert.doesNotMatch(end.stderr, /Warning|partitioner/);
    });
  });

  describe(`a broker that accepts and never answers: ${vendor}`, function () {
    this.timeout(60_000);
    let silent: Server;
    let brokers: string;
    const sockets = new Set<Socket>();

    /** Both modes side by side: what they wait for is a time-out. */
    const played = new Map<boolean, Promise<{ client: Client; answers: readonly Answer[] }>>();

    before(async () => {
      silent = createServer((socket) => sockets.add(socket.on('error', () => {})));
      silent.listen(0, '127.0.0.1');
      await once(silent, 'listening');
      brokers = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
      for (const asyncMode of [false, true]) played.set(asyncMode, play(asyncMode));
      await Promise.allSettled(played.values());
    });
    after(() => {
      for (const socket of sockets) socket.destroy();
      silent.close();
    });

    async function play(asyncMode: boolean): Promise<{ client: Client; answers: readonly Answer[] }> {
      const client = await start(
        { app: apps[vendor], env: { KAFKA_BROKERS: brokers } },
        {
          broker: {
            client: vendor,
            'async-mode': asyncMode,
            'request-timeout-ms': 1000,
            'connection-timeout-ms': 1000,
          },
          shutdown: { 'timeout-ms': 0 },
        },
      );
      const answers = await Promise.all(['order', 'ship', 'pay'].map(client.call));
      await client.running.waitFor(/^lost ORDERED events \S+$/m);
      return { client, answers };
    }

    for (const asyncMode of [false, true]) {
      it(`async-mode ${asyncMode}: ${asyncMode ? 'nobody waits' : 'an async function waits, a synchronous one does not'}`, async () => {
        const { client, answers } = (await played.get(asyncMode)) as Awaited<ReturnType<typeof play>>;
        const [order, ship, pay] = answers;
        assert.deepEqual([order?.result, ship?.result], [{ id: 'order' }, { id: 'ship' }]);
        assert.ok((ship?.tookMs ?? 0) < 500, `${ship?.tookMs} ms`);
        assert.equal((order?.tookMs ?? 0) > 700, !asyncMode, `${order?.tookMs} ms`);
        assert.equal(pay?.error?.code, asyncMode ? undefined : 'SVC_PUBLISH_TIMEOUT');
        await client.running.kill('SIGTERM');
      });
    }
  });
}

describe('failOnError', function () {
  this.timeout(60_000);

  it('true: an event that cannot be made throws to the caller; false: the call goes on, with a line in the log', async () => {
    const end = await endOf({
      app,
      files: {
        'svc.config.json': configOf([
          {
            module: './main.mjs',
            function: 'strict',
            eventType: 'STRICT',
            payload: '#result.items[0].id',
            failOnError: true,
          },
          { module: './main.mjs', function: 'lenient', eventType: 'LENIENT', payload: '#result.items[0].id' },
        ]),
        'main.mjs': `
          async function strict() { return { items: null, card: 'secret-value' }; }
          function lenient() { return { items: null }; }
          console.log(JSON.stringify(lenient()));
          await strict().catch((error) => console.log(error.name, error.code, error.message));`,
      },
    });
    assert.equal(end.code, 0, end.stderr);
    const [lenient, strict] = end.stdout.split('\n');
    assert.equal(lenient, '{"items":null}');
    assert.match(strict ?? '', /^SvcError SVC_CAPTURE_EXPRESSION /);
    assert.equal(end.stderr.match(/^svc: error: event refused: /gm)?.length, 2, end.stderr);
    assert.doesNotMatch(end.stdout + end.stderr, /secret-value/);
    assert.deepEqual(end.topics, {});
  });
});
