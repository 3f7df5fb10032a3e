import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { startKafka, type TestKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { plainApp } from '../support/apps.ts';
import { startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

const endings = ['naturally', 'process.exit', 'a throw', 'terminate'] as const;
const threads = 12;
const events = 10;

/** One thread after the other, each with ten events under way, or to come, when it ends. */
const main = `
  const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
  function order(id) { return { id }; }
  async function one(n) {
    const worker = new Worker(__filename, { workerData: n });
    worker.on('error', () => {});
    worker.on('message', () => worker.terminate());
    await new Promise((resolve) => worker.once('exit', resolve));
  }
  if (isMainThread) {
    (async () => {
      for (let n = 0; n < ${threads}; n++) await one(n);
      console.log('all have ended');
    })();
    setTimeout(() => {}, 60_000);
  } else {
    for (let id = 0; id < ${events}; id++) order(workerData + '-' + id);
    if (workerData % 4 === 1) process.exit(0);
    if (workerData % 4 === 2) throw new Error('of the application');
    if (workerData % 4 === 3) setInterval(() => {}, 1_000) && parentPort.postMessage('terminate me');
  }`;

requiring('kafka', 'worker threads that end early', function () {
  this.timeout(240_000);
  let kafka: TestKafka;
  before(async () => {
    kafka = await startKafka();
  });

  for (const asyncMode of [true, false])
    it(`leave no event without an outcome, and none in the backup: async-mode ${asyncMode}`, async () => {
      const topic = `worker-ends-${asyncMode}`;
      await kafka.createTopic(topic);
      const broker = { 'bootstrap-servers': kafka.brokers, topic, 'async-mode': asyncMode };
      const target = { module: './main.cjs', function: 'order', eventType: 'ORDERED', key: '#id' };
      const app = await startApp({
        app: plainApp(),
        timeoutMs: 90_000,
        args: ['--import', 'svc/register', 'main.cjs'],
        files: { 'svc.config.json': configOf([target], { broker }), 'main.cjs': main },
      });
      try {
        const url = (await app.waitFor(/management on (http:\S+)/))[1] as string;
        await app.waitFor(/all have ended/);
        const each = (threads / endings.length) * events;
        const kept = each * (endings.length - 1);
        const expected = { calls: threads * events, in_flight: 0, lost: each, waiting: 0 };
        for (let tries = 0; ; tries++) {
          const found = await counts(url);
          const { published, backup, drained, ...rest } = found;
          const isThere = published + backup === kept && drained === backup;
          if (isThere && JSON.stringify(rest) === JSON.stringify(expected)) break;
          assert.ok(
            tries < 50,
            `${JSON.stringify(found)}, expected ${JSON.stringify({ ...expected, kept })}`,
          );
          await sleep(200);
        }
        const ids = (await kafka.read(topic, { count: kept })).map(({ key }) => key as string);
        const wanted = Array.from({ length: threads }, (_, thread) => thread).filter(
          (thread) => thread % 4 < 3,
        );
        for (const thread of wanted)
          for (let id = 0; id < events; id++) assert.ok(ids.includes(`${thread}-${id}`), `${thread}-${id}`);
        assert.match((await app.kill('SIGTERM')).stderr, /a worker thread ended with events in its memory/);
      } finally {
        await app.kill('SIGKILL');
      }
    });
});

async function counts(url: string) {
  const text = await (await fetch(url)).text();
  const value = (name: string): number =>
    Number(new RegExp(`^svc_${name}(?:\\{eventType="ORDERED"\\})? (\\S+)$`, 'm').exec(text)?.[1]);
  return {
    calls: value('events_calls_total'),
    in_flight: value('events_in_flight'),
    lost: value('events_lost_total'),
    waiting: value('backup_events'),
    published: value('events_published_total'),
    backup: value('events_backup_total'),
    drained: value('backup_drained_total'),
  };
}
