import assert from 'node:assert/strict';
import { until as untilSo } from '../../support/until.ts';
import { plainApp } from '../support/apps.ts';
import { endOf, type RunningApp, startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

/** One call in the main thread, two in a worker that ends by itself, three in one that is terminated when the test says so. */
const main = `
  const { Worker, isMainThread, workerData } = require('node:worker_threads');
  function order(id) { return { id }; }
  if (isMainThread) {
    order(1);
    new Worker(__filename, { workerData: 2 });
    const stopped = new Worker(__filename, { workerData: 3 });
    process.once('SIGUSR2', () => stopped.terminate().then(() => console.log('terminated')));
    setTimeout(() => {}, 30_000);
  } else {
    for (let id = 0; id < workerData; id++) order(id);
    if (workerData === 3) setInterval(() => {}, 1_000);
  }`;

describe('metrics of worker threads', function () {
  this.timeout(180_000);
  let app: RunningApp;
  let url: string;

  before(async () => {
    app = await startApp({
      app: plainApp(),
      timeoutMs: 60_000,
      args: ['--import', 'svc/register', 'main.cjs'],
      files: {
        'svc.config.json': configOf([{ module: './main.cjs', function: 'order', eventType: 'ORDERED' }]),
        'main.cjs': main,
      },
    });
    url = (await app.waitFor(/management on (http:\S+)/))[1] as string;
  });
  after(() => app.kill('SIGKILL'));

  const value = async (line: string): Promise<number> => {
    const text = await (await fetch(url)).text();
    return Number(
      text
        .split('\n')
        .find((each) => each.startsWith(line))
        ?.slice(line.length),
    );
  };
  const until = (line: string, expected: number): Promise<void> =>
    untilSo(async () => (await value(line)) === expected, {
      everyMs: 100,
      say: async () => `${line} is ${await value(line)}, expected ${expected}`,
    });

  it('/metrics of the main thread counts the events of all threads', async () => {
    await until('svc_events_published_total{eventType="ORDERED"} ', 6);
    await until('svc_events_publish_duration_seconds_count{eventType="ORDERED"} ', 6);
    await until('svc_capture_calls_total{target="main.cjs#order",result="event"} ', 6);
    await until('svc_buffer_events ', 0);
  });

  it('and goes on counting those of threads that have ended', async () => {
    app.child.kill('SIGUSR2');
    await app.waitFor(/terminated/);
    assert.equal(await value('svc_events_calls_total{eventType="ORDERED"} '), 6);
    assert.equal(await value('svc_events_published_total{eventType="ORDERED"} '), 6);
  });
});

describe('the end of a process whose thread ended a moment before', function () {
  this.timeout(60_000);

  it('knows what the thread loaded', async () => {
    const { code, stderr } = await endOf({
      app: plainApp(),
      args: ['--import', 'svc/register', 'main.cjs'],
      files: {
        'svc.config.json': configOf([{ module: './thread.cjs', function: 'order', eventType: 'ORDERED' }]),
        'main.cjs': `
          const { Worker } = require('node:worker_threads');
          const workerData = new Int32Array(new SharedArrayBuffer(4));
          new Worker('./thread.cjs', { workerData });
          setTimeout(() => {
            Atomics.wait(workerData, 0, 0);
            process.exit();
          }, 100);`,
        'thread.cjs': `
          const { workerData } = require('node:worker_threads');
          function order(id) { return { id }; }
          order(1);
          setTimeout(() => process.on('exit', () => {
            Atomics.store(workerData, 0, 1);
            Atomics.notify(workerData, 0);
          }), 200);`,
      },
    });
    assert.equal(code, 0, stderr);
    assert.doesNotMatch(stderr, /UNLOADED/);
  });
});

describe('the circuit breaker of a worker thread', function () {
  this.timeout(180_000);

  it('is closed by the reset of the main thread', async () => {
    const token = 'a-token-of-some-length';
    const target = { module: './main.cjs', function: 'order', eventType: 'ORDERED' };
    const app = await startApp({
      app: plainApp(),
      timeoutMs: 60_000,
      args: ['--import', 'svc/register', 'main.cjs'],
      env: { MANAGEMENT_SERVER_TOKEN: token, SVC_LOG_LEVEL: 'debug' },
      files: {
        'svc.config.json': configOf([target], { broker: { 'bootstrap-servers': '127.0.0.1:1' } }),
        'main.cjs': `
          const { Worker, isMainThread } = require('node:worker_threads');
          if (isMainThread) new Worker(__filename);
          setTimeout(() => {}, 30_000);`,
      },
    });
    try {
      const url = (await app.waitFor(/management on (http:\S+)\/metrics/))[1] as string;
      // One of each thread: the broker refuses them.
      await app.waitFor(/Circuit breaker is OPEN[\s\S]*Circuit breaker is OPEN/);
      const answer = await fetch(`${url}/actuator/svc/circuit-breaker/reset`, {
        ...{ method: 'POST', headers: { authorization: `Bearer ${token}` } },
      });
      assert.deepEqual(await answer.json(), { broker: { before: 'OPEN', after: 'CLOSED' }, outbox: null });
      await app.waitFor(/is CLOSED by a reset[\s\S]*is CLOSED by a reset/);
    } finally {
      await app.kill('SIGKILL');
    }
  });
});
