import assert from 'node:assert/strict';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { eventsIn } from '../../adapters/local-backup/backup-folder.ts';
import { startKafka, type TestKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { plainApp } from '../support/apps.ts';
import { type AppEnd, type AppOptions, endOf, startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

const eventCount = 300;
const target = { module: './main.mjs', function: 'order', eventType: 'ORDERED' };

/** `order` is synchronous: nobody waits for its events. `burst()` puts them all in flight. */
const orders = `
  function order(id) { return { id }; }
  const burst = () => { for (let id = 0; id < ${eventCount}; id++) order(id); };`;

let app: string;
before('npm install', function () {
  this.timeout(180_000);
  app = plainApp();
});

const end = (
  main: string,
  options: Partial<AppOptions> = {},
  config: Record<string, unknown> = {},
): Promise<AppEnd> =>
  endOf({
    app,
    files: { 'svc.config.json': configOf([target], config), 'main.mjs': `${orders}\n${main}` },
    ...options,
  });

function hasAllEvents({ topics, stderr }: AppEnd): void {
  assert.equal(topics.events?.length, eventCount, stderr);
  assert.equal(new Set(topics.events?.map(({ value }) => value.payload.id)).size, eventCount);
  assert.doesNotMatch(stderr, /lost/);
}

describe('the end of a process', function () {
  this.timeout(60_000);

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    it(`${signal}, which the application does not handle: events in flight arrive, and the signal ends it`, async () => {
      const run = await end(`setInterval(() => {}, 1000); burst(); process.kill(process.pid, '${signal}');`);
      assert.deepEqual([run.code, run.signal], [null, signal]);
      hasAllEvents(run);
    });
  }

  it('SIGTERM, which the application handles: the application decides', async () => {
    const run = await end(`
      const alive = setInterval(() => {}, 1000);
      process.once('SIGTERM', () => {
        console.log('first');
        burst();
        setTimeout(() => { clearInterval(alive); process.exitCode = 3; }, 300);
      });
      process.kill(process.pid, 'SIGTERM');`);
    assert.deepEqual([run.code, run.signal, run.stdout], [3, null, 'first\n']);
    hasAllEvents(run);
  });

  it('a handler that was there before svc, and is used once, decides as well', async () => {
    const run = await endOf({
      app,
      args: ['--import', './before.mjs', '--import', 'svc/register', 'main.mjs'],
      files: {
        'svc.config.json': configOf([target]),
        'before.mjs': `process.once('SIGTERM', () => setTimeout(() => process.exit(4), 300));`,
        'main.mjs': `${orders} setInterval(() => {}, 1000); burst(); process.kill(process.pid, 'SIGTERM');`,
      },
    });
    assert.deepEqual([run.code, run.signal], [4, null]);
    hasAllEvents(run);
  });

  it('does not wait for signal-exit, which waits for the others', async () => {
    const run = await end(`
      import { onExit } from 'signal-exit';
      onExit((code, signal) => console.log('on exit', code, signal));
      setInterval(() => {}, 1000); burst(); process.kill(process.pid, 'SIGTERM');`);
    assert.deepEqual([run.code, run.signal, run.stdout], [null, 'SIGTERM', 'on exit null SIGTERM\n']);
    hasAllEvents(run);
  });

  it('a script that is done ends by itself, with its events, its exit code and its output', async () => {
    const run = await end(`burst(); process.exitCode = 5; console.log('done');`);
    assert.deepEqual([run.code, run.signal, run.stdout], [5, null, 'done\n']);
    hasAllEvents(run);
  });

  it('process.exit() keeps its code, and what was in flight is in the backup', async () => {
    const run = await end(`setTimeout(() => { burst(); process.exit(6); }, 200);`);
    assert.deepEqual([run.code, run.signal], [6, null]);
    assert.match(run.stderr, new RegExp(`wrote the rest to the backup events=${eventCount}\\b`));
    assert.doesNotMatch(run.stderr, /lost/);
  });

  it('process.exit() before the first turn of the event loop is over: all of it is in the backup', async () => {
    const run = await end(`burst(); process.exit(6);`);
    assert.deepEqual([run.code, run.signal], [6, null]);
    assert.match(run.stderr, new RegExp(`wrote the rest to the backup events=${eventCount}\\b`));
    assert.doesNotMatch(run.stderr, /lost|error/);
  });

  for (const [title, before, expected] of [
    ['after others', 'burst();', eventCount],
    ['the first of all', '', 0],
  ] as const) {
    it(`an event of the application's own exit handler, ${title}: in the backup`, async () => {
      const running = await startApp({
        app,
        files: {
          'svc.config.json': configOf([target]),
          'main.mjs': `${orders} process.on('exit', () => { order('last'); order('very last'); }); ${before}`,
        },
      });
      const run = await running.ended;
      assert.deepEqual([run.code, run.signal], [0, null]);
      assert.equal(run.topics.events?.length ?? 0, expected);
      const events = await eventsIn(join(running.folder, 'dlq-backup'));
      assert.deepEqual(
        events.map(({ value }) => JSON.parse(value.toString()).payload.id),
        ['last', 'very last'],
      );
    });
  }

  it('process.exit() without any backup: what was in flight is said to be lost', async () => {
    const run = await end(`burst(); process.exit(6);`, {}, { broker: { backup: { localEnabled: false } } });
    assert.deepEqual([run.code, run.signal], [6, null]);
    const stored = run.topics.events?.length ?? 0;
    assert.ok(stored < eventCount);
    assert.match(
      run.stderr,
      new RegExp(`before all events were acknowledged.*events=${eventCount - stored}\\b`),
    );
  });

  it('an uncaught exception keeps its exit code and its message', async () => {
    const main = `setTimeout(() => { burst(); throw new TypeError('out of stock'); });`;
    const [run, bare] = [await end(main), await end(main, { args: ['main.mjs'] })];
    assert.deepEqual([run.code, run.signal], [bare.code, bare.signal]);
    assert.equal(run.code, 1);
    const trace = (text: string): string =>
      text.slice(text.indexOf('TypeError: out of stock'), text.lastIndexOf('\n\nNode.js'));
    assert.deepEqual(
      trace(run.stderr).replaceAll(/case-[\d-]+/g, ''),
      trace(bare.stderr).replaceAll(/case-[\d-]+/g, ''),
    );
    assert.match(run.stderr, new RegExp(`before all events were acknowledged.*events=${eventCount}\\b`));
  });

  it('a rejection that nobody handles, and a top-level await that never ends, keep their exit codes', async () => {
    const [rejected, stuck] = await Promise.all([
      end(`Promise.reject(new Error('nobody'));`),
      end(`burst(); await new Promise(() => {});`),
    ]);
    assert.equal(rejected.code, 1);
    assert.match(rejected.stderr, /Error: nobody/);
    assert.equal(stuck.code, 13);
    hasAllEvents(stuck);
  });

  it('a worker thread delivers its events before it ends', async () => {
    const run = await end(
      `import { Worker, isMainThread } from 'node:worker_threads';
       if (isMainThread) new Worker(new URL(import.meta.url)).on('exit', (code) => console.log('worker', code));
       else burst();`,
    );
    assert.deepEqual([run.code, run.stdout], [0, 'worker 0\n']);
    hasAllEvents(run);
  });
});

describe('the end of a process while the broker does not answer', function () {
  this.timeout(60_000);
  let silent: Server;
  let brokers: string;

  before('a port that accepts and says nothing', (done) => {
    silent = createServer(() => {}).listen(0, '127.0.0.1', () => {
      brokers = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
      done();
    });
  });
  after(() => silent.close());

  const hanging = (shutdownMs: number): AppOptions => ({
    app,
    env: { KAFKA_BROKERS: brokers },
    files: {
      'svc.config.json': configOf([target], { shutdown: { 'timeout-ms': shutdownMs } }),
      'main.mjs': `${orders} order(1); order(2); setInterval(() => {}, 1000); setTimeout(() => console.log('ready'), 100);`,
    },
  });

  it('a script without events ends as soon as it is done', async () => {
    const run = await endOf({
      ...hanging(15_000),
      files: {
        'svc.config.json': configOf([]),
        'main.mjs': `await new Promise((resolve) => setTimeout(resolve, 300)); console.log(process.uptime());`,
      },
    });
    assert.deepEqual([run.code, run.signal], [0, null], run.stderr);
    const afterMs = run.durationMs - Number(run.stdout) * 1000;
    assert.ok(afterMs < 2000, `${afterMs} ms`);
  });

  for (const [title, end] of [
    ['SIGTERM', "process.kill(process.pid, 'SIGTERM')"],
    ['process.exit()', 'process.exit(0)'],
  ] as const) {
    it(`${title} in the main thread: what its worker threads have in memory is in the backup as well`, async () => {
      const running = await startApp({
        ...hanging(700),
        files: {
          ...hanging(700).files,
          'main.mjs': `${orders}
            import { Worker, isMainThread, parentPort } from 'node:worker_threads';
            setInterval(() => {}, 1000);
            order(1);
            const start = () => new Promise((resolve) => new Worker(new URL(import.meta.url)).once('message', resolve));
            if (isMainThread) Promise.all([start(), start()]).then(() => ${end});
            else setTimeout(() => parentPort.postMessage('ready'), 200);`,
        },
      });
      const run = await running.ended;
      assert.equal((await eventsIn(join(running.folder, 'dlq-backup'))).length, 3, run.stderr);
      assert.doesNotMatch(run.stderr, /lost/);
    });
  }

  it('SIGTERM waits until shortly before the deadline, and puts what is left into the backup', async () => {
    const running = await startApp(hanging(700));
    await running.waitFor(/ready/);
    const started = performance.now();
    const run = await running.kill('SIGTERM');
    const tookMs = performance.now() - started;
    assert.equal(run.signal, 'SIGTERM');
    assert.ok(tookMs > 500, `${tookMs} ms`);
    assert.match(run.stderr, /event kept in the backup: svc had to stop/);
    assert.equal((await eventsIn(join(running.folder, 'dlq-backup'))).length, 2);
    assert.doesNotMatch(run.stderr, /lost/);
  });

  it('a second SIGTERM ends it at once', async () => {
    const running = await startApp(hanging(15_000));
    await running.waitFor(/ready/);
    running.child.kill('SIGTERM');
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.equal(running.child.signalCode, null);
    const run = await running.kill('SIGTERM');
    assert.equal(run.signal, 'SIGTERM');
    assert.ok(run.durationMs < 10_000, `${run.durationMs} ms`);
    assert.match(run.stderr, /before all events were acknowledged.*events=2\b/);
  });
});

requiring('kafka', 'the end of a process that publishes to Kafka', function () {
  this.timeout(120_000);
  let kafka: TestKafka;

  before(async () => {
    kafka = await startKafka();
  });

  const topicOf = async (): Promise<{ topic: string; options: (main: string) => AppOptions }> => {
    const topic = `end.${Date.now()}`;
    await kafka.createTopic(topic, { partitions: 3 });
    const options = (main: string): AppOptions => ({
      app,
      env: { KAFKA_BROKERS: kafka.brokers.join(',') },
      files: {
        'svc.config.json': configOf([target], { broker: { topic } }),
        'main.mjs': `${orders}\n${main}`,
      },
    });
    return { topic, options };
  };

  it('SIGTERM: every event in flight is stored', async () => {
    const { topic, options } = await topicOf();
    const run = await endOf(
      options(`setInterval(() => {}, 1000); burst(); process.kill(process.pid, 'SIGTERM');`),
    );
    assert.deepEqual([run.code, run.signal], [null, 'SIGTERM']);
    assert.equal(await kafka.count(topic), eventCount);
  });

  it('a script ends by itself soon after its last event, without noise of kafkajs', async () => {
    const { topic, options } = await topicOf();
    const main = `burst(); process.on('beforeExit', () => console.log(process.uptime()));`;
    const run = await endOf(options(main));
    assert.deepEqual([run.code, run.signal], [0, null], run.stderr);
    assert.equal(await kafka.count(topic), eventCount);
    assert.doesNotMatch(run.stderr, /warning|partitioner|kafkajs: /i);
    const uptimeMs = Number(run.stdout.split('\n')[0]) * 1000;
    console.log(
      `      ended ${Math.round(run.durationMs - uptimeMs)} ms after its work, ${Math.round(run.durationMs)} ms in all`,
    );
    assert.ok(run.durationMs < 10_000, `${run.durationMs} ms`);
  });

  it('idles at next to no CPU', async () => {
    const { options } = await topicOf();
    const run = await endOf(
      options(`
        burst();
        const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
        await sleep(1500);
        const before = process.cpuUsage();
        await sleep(2500);
        const { user, system } = process.cpuUsage(before);
        console.log((user + system) / 2500 / 10);`),
    );
    const percent = Number(run.stdout);
    console.log(`      ${percent.toFixed(2)} % of a core`);
    assert.ok(percent < 2, `${percent} %`);
    assert.doesNotMatch(run.stderr, /warning/i);
  });
});
