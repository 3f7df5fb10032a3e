import assert from 'node:assert/strict';
import type { ConsoleDocument } from '../../src/manage/views.ts';
import { plainApp } from '../e2e/support/apps.ts';
import { type RunningApp, startApp } from '../e2e/support/start-app.ts';
import { configOf } from '../e2e/support/topic-config.ts';

const typeCount = 1_000;
const requests = 100;
/** Of what an answer costs that says `UP`: four to five times were seen, and 150 where each number reads all rows. */
const maxTimes = 30;

const main = `
  import { publishEvent } from 'svc';
  for (let n = 0; n < ${typeCount - 1}; n++) publishEvent({ eventType: 'TYPE_' + n }, () => n)();
  const cpu = (spent) => console.log('cpu ' + spent + ' ' + Object.values(process.cpuUsage()).reduce((sum, us) => sum + us) / 1_000);
  let asked = 0;
  process.on('SIGUSR2', () => cpu(++asked));
  setInterval(() => {}, 1_000);`;

describe('the console of a process with 1,000 event types and targets', function () {
  this.timeout(60_000);
  let app: RunningApp;
  after(() => app?.kill('SIGKILL'));

  it('costs a small multiple of the cheapest answer, and no more', async () => {
    app = await startApp({
      app: plainApp(),
      timeoutMs: 60_000,
      files: { 'svc.config.json': configOf([], { broker: { client: 'file' } }), 'main.mjs': main },
    });
    const [, of] = await app.waitFor(/management on http:\/\/127\.0\.0\.1:(\d+)\//);
    const port = Number(of);
    let read = 0;
    const spentMs = async (): Promise<number> => {
      app.child.kill('SIGUSR2');
      const [, ms] = await app.waitFor(new RegExp(`cpu ${++read} ([\\d.]+)`));
      return Number(ms);
    };
    const of200 = async (path: string): Promise<Response> => {
      const answer = await fetch(`http://127.0.0.1:${port}/actuator/${path}`);
      assert.equal(answer.status, 200);
      return answer;
    };
    const first = (await (await of200('svc/console.json?after=0')).json()) as ConsoleDocument;
    assert.deepEqual([first.typeCount, first.types.length, first.trends.length], [typeCount - 1, 100, 50]);
    const page = `svc/console.json?after=${first.atMs}`;
    /** CPU time: of two ratios on one machine what else runs there takes no side. */
    const costMs = async (path: string): Promise<number> => {
      const before = await spentMs();
      for (let asked = 0; asked < requests; asked++) await (await of200(path)).text();
      return ((await spentMs()) - before) / requests;
    };
    for (const path of [page, 'health/liveness']) await costMs(path);
    const [shown, bare] = [await costMs(page), await costMs('health/liveness')];
    assert.ok(shown < maxTimes * bare, `${shown} ms, against ${bare} ms for the cheapest answer`);
  });
});
