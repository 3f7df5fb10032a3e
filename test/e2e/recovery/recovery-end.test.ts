import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import { type OwnKafka, startOwnKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { plainApp } from '../support/apps.ts';
import { type AppEnd, type RunningApp, startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

const token = 'a-token-of-some-length';
const count = 600;
const timeoutMs = 4_000;
/** What the end of a process takes beside svc, on a machine with much to do. */
const slackMs = 1_500;
const target = { module: './main.mjs', function: 'order', eventType: 'ORDERED', key: '#id' };

requiring('own-kafka', 'a recovery that is under way at the end of its process', function () {
  this.timeout(120_000);
  let kafka: OwnKafka;
  let app: string;
  before(async () => {
    app = plainApp();
    kafka = await startOwnKafka();
  });
  after(() => kafka?.stop());
  // Whatever a test that failed has left.
  afterEach(() => kafka.resume());

  interface Case {
    readonly path: string;
    readonly name: string;
    readonly orders: string;
    begin(main?: string): Promise<RunningApp>;
  }

  async function deadLetters(): Promise<Case> {
    const [orders, dead] = [`orders-${randomUUID()}`, `dead-${randomUUID()}`];
    for (const topic of [orders, dead]) await kafka.createTopic(topic);
    const producer = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).producer();
    await producer.connect();
    const messages = Array.from({ length: count }, (_, id) => ({
      key: `${id}`,
      value: JSON.stringify({ eventId: `${id}`, originalTopic: orders, originalPayload: `{"id":${id}}` }),
    }));
    await producer.send({ topic: dead, messages });
    await producer.disconnect();
    const begin = (main?: string) => start({ orders, broker: { 'dlq-topic': dead }, main });
    return { path: '/actuator/svc/dlq/recover', name: 'dead letters', orders, begin };
  }

  /** Events of a process that had no broker lie in its folder. */
  async function backup(): Promise<Case> {
    const orders = `orders-${randomUUID()}`;
    await kafka.createTopic(orders);
    const away = await start({
      ...{ orders, broker: {}, env: { KAFKA_BROKERS: '127.0.0.1:1' } },
      main: `for (let id = 0; id < ${count}; id++) order(id); process.exit(0);`,
    });
    await away.ended;
    const broker = { backup: { drain: { enabled: false } } };
    const begin = (main?: string) => start({ orders, broker, folder: away.folder, main });
    return { path: '/actuator/svc/backup/drain', name: 'backup', orders, begin };
  }

  function start(its: {
    orders: string;
    broker: object;
    folder?: string;
    env?: Record<string, string>;
    main?: string | undefined;
  }): Promise<RunningApp> {
    const { orders, broker, folder, env, main = 'setInterval(() => {}, 1000);' } = its;
    return startApp({
      ...{ app, timeoutMs: 60_000, ...(folder !== undefined && { folder }) },
      env: { KAFKA_BROKERS: kafka.brokers.join(), MANAGEMENT_SERVER_TOKEN: token, ...env },
      files: {
        'svc.config.json': configOf([target], {
          broker: { topic: orders, ...broker },
          shutdown: { 'timeout-ms': timeoutMs },
        }),
        'main.mjs': `function order(id) { return { id }; }\n${main}`,
      },
    });
  }

  async function ask(running: RunningApp, path: string, body: object): Promise<void> {
    const url = `http://${(await running.waitFor(/management on http:\/\/(\S+)\/metrics/))[1]}${path}`;
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
    const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body), headers });
    assert.equal(answer.status, 202, await answer.text());
    const run = async () => {
      const found = await fetch(url, { headers });
      return ((await found.json()) as { run: { sent: number; state: string } }).run;
    };
    for (let now = await run(); now.sent === 0; now = await run()) {
      assert.equal(now.state, 'RUNNING');
      await sleep(20);
    }
  }

  /** How many it says to have sent. */
  function toldOf(end: AppEnd, name: string): number {
    const line = end.stderr
      .split('\n')
      .filter((each) => each.includes(`${name}: recovery`) && /STOPPED/.test(each));
    assert.equal(line.length, 1, end.stderr);
    return Number(/STOPPED, (\d+) of/.exec(line[0] as string)?.[1]);
  }

  async function restOf({ begin, path, orders, name }: Case, sent: number): Promise<void> {
    const next = await begin();
    await ask(next, path, {});
    const [, rest] = await next.waitFor(new RegExp(`${name}: recovery .*: DONE, (\\d+) of`));
    await next.kill('SIGTERM');
    assert.equal(Number(rest) + sent, count);
    const keys = (await kafka.read(orders, { count })).map(({ key }) => key);
    assert.deepEqual([keys.length, new Set(keys).size], [count, count]);
  }

  for (const [title, make] of [
    ['dead letters', deadLetters],
    ['the backup', backup],
  ] as const) {
    it(`${title}: SIGTERM ends it in time, it says that it was stopped, and the next run goes on, nothing twice`, async () => {
      const its = await make();
      const running = await its.begin();
      await ask(running, its.path, { rate: 40 });
      const toldMs = performance.now();
      const end = await running.kill('SIGTERM');
      const tookMs = performance.now() - toldMs;
      assert.ok(tookMs < timeoutMs + slackMs, `${tookMs} ms`);
      assert.deepEqual([end.code, end.signal], [null, 'SIGTERM'], end.stderr);
      const sent = toldOf(end, its.name);
      assert.ok(sent > 0 && sent < count, `${sent}`);
      await restOf(its, sent);
    });

    it(`${title}: a process that has nothing else to do ends beside it`, async () => {
      const its = await make();
      const running = await its.begin('setTimeout(() => {}, 3000);');
      await ask(running, its.path, { rate: 20 });
      const end = await running.ended;
      assert.deepEqual([end.code, end.signal], [0, null], end.stderr);
      assert.ok(end.durationMs < 3_000 + 2 * slackMs, `${end.durationMs} ms`);
      await restOf(its, toldOf(end, its.name));
    });

    it(`${title}: a broker that answers no more does not hold it beyond the deadline, and nothing is lost`, async () => {
      const its = await make();
      const running = await its.begin();
      await ask(running, its.path, { rate: 40 });
      await kafka.pause();
      await sleep(500);
      const toldMs = performance.now();
      const end = await running.kill('SIGTERM');
      const tookMs = performance.now() - toldMs;
      await kafka.resume();
      assert.ok(tookMs < timeoutMs + slackMs, `${tookMs} ms`);
      assert.equal(end.signal, 'SIGTERM', end.stderr);
      const next = await its.begin();
      await ask(next, its.path, {});
      await next.waitFor(new RegExp(`${its.name}: recovery .*: DONE, (\\d+) of`));
      await next.kill('SIGTERM');
      // What had no answer is sent again.
      const keys = (await kafka.read(its.orders, { count })).map(({ key }) => key);
      assert.equal(new Set(keys).size, count);
    });
  }
});
