import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { plainApp } from '../support/apps.ts';
import { type AppEnd, type AppOptions, endOf, startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

const target = {
  ...{ module: './main.mjs', function: 'order', eventType: 'ORDERED' },
  outbox: { aggregateType: 'Order', aggregateId: '#result.id' },
};

describe('the end of a process with an outbox', function () {
  this.timeout(60_000);
  let app: string;
  before('npm install', function () {
    this.timeout(180_000);
    app = plainApp();
  });

  const options = (main: string, svc: Record<string, unknown> = {}): AppOptions => ({
    app,
    files: {
      'svc.config.json': configOf([target], {
        outbox: {
          ...{ enabled: true, datasource: { url: 'sqlite:./outbox.db' } },
          // Nothing is found by a look that comes of itself.
          ...{ 'on-no-transaction': 'autocommit', 'poll-interval-ms': 60_000 },
        },
        ...svc,
      }),
      'main.mjs': `async function order(id) { return { id }; }\n${main}`,
    },
  });
  const idsOf = ({ topics }: AppEnd): string[] => (topics.events ?? []).map(({ value }) => value.payload.id);

  /** Statuses of the rows, and who holds shards. */
  function tableOf(folder: string): { statuses: unknown[]; owners: unknown[] } {
    const database = new DatabaseSync(join(folder, 'outbox.db'));
    try {
      const statuses = database.prepare('SELECT status FROM svc_outbox_events ORDER BY id').all();
      const owners = database
        .prepare('SELECT DISTINCT owner FROM svc_outbox_events_shard WHERE owner IS NOT NULL')
        .all();
      return { statuses: statuses.map(({ status }) => status), owners };
    } finally {
      database.close();
    }
  }

  it('a script that stores one event and ends has sent it', async () => {
    const running = await startApp(options(`await order('a');`));
    const end = await running.ended;
    assert.deepEqual([end.code, idsOf(end)], [0, ['a']], end.stderr);
    assert.deepEqual(tableOf(running.folder), { statuses: ['PUBLISHED'], owners: [] });
    assert.ok(end.durationMs < 5_000, `${end.durationMs} ms`);
  });

  it('a process that goes on after beforeExit has a relay, each time', async () => {
    const running = await startApp(
      options(`
        let round = 0;
        process.on('beforeExit', () => { if (++round < 4) setTimeout(() => order('r' + round), 50); });
        await order('r0');`),
    );
    const end = await running.ended;
    assert.deepEqual([end.code, idsOf(end)], [0, ['r0', 'r1', 'r2', 'r3']], end.stderr);
    assert.deepEqual(tableOf(running.folder).owners, []);
  });

  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    it(`${signal}: what is committed is sent, and others can have the shards`, async () => {
      const running = await startApp(
        options(`setInterval(() => {}, 1000); await order('a'); await order('b'); console.log('stored');`),
      );
      await running.waitFor(/stored/);
      const end = await running.kill(signal);
      assert.equal(end.signal, signal);
      assert.deepEqual(idsOf(end), ['a', 'b'], end.stderr);
      assert.deepEqual(tableOf(running.folder), { statuses: ['PUBLISHED', 'PUBLISHED'], owners: [] });
    });

  it('an application that handles the signal has a relay for what it stores after it', async () => {
    const running = await startApp(
      options(`
        const timer = setInterval(() => {}, 1000);
        process.on('SIGTERM', () => setTimeout(async () => { await order('late'); clearInterval(timer); }, 300));
        await order('a');
        console.log('stored');`),
    );
    await running.waitFor(/stored/);
    const end = await running.kill('SIGTERM');
    assert.deepEqual([end.code, idsOf(end)], [0, ['a', 'late']], end.stderr);
    assert.deepEqual(tableOf(running.folder).owners, []);
  });

  it('a broker that does not take it holds the process no longer than svc.shutdown.timeout-ms', async () => {
    const running = await startApp({
      ...options(`await order('a');`, { shutdown: { 'timeout-ms': 1_000 } }),
      // A file where the folder of the topics has to be.
      env: { SVC_BROKER_FILE_PATH: 'svc.config.json' },
    });
    const end = await running.ended;
    assert.equal(end.code, 0);
    assert.ok(end.durationMs < 4_000, `${end.durationMs} ms`);
    assert.deepEqual(tableOf(running.folder).statuses, ['PENDING']);
  });

  it('with nothing to send it ends as soon as without svc', async () => {
    const main = `
      await new Promise((done) => setTimeout(done, 300));
      process.once('beforeExit', () => {
        const start = performance.now();
        process.once('exit', () => console.log('waited ' + (performance.now() - start)));
      });`;
    const waits: number[] = [];
    for (let times = 0; times < 3; times++) {
      const { stdout } = await endOf(options(main));
      waits.push(Number(/waited ([\d.]+)/.exec(stdout)?.[1]));
    }
    assert.ok(Math.min(...waits) < 50, `${waits} ms`);
  });
});
