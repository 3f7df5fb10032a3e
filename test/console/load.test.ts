import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConsoleDocument } from '../../src/manage/console/document.ts';
import { plainApp } from '../e2e/support/apps.ts';
import { type RunningApp, startApp } from '../e2e/support/start-app.ts';
import { configOf } from '../e2e/support/topic-config.ts';

const typeCount = 60;
/** Each asks every two seconds. */
const [pages, everyMs, rounds] = [10, 2_000, 4];

const main = `
  import { publishEvent } from 'svc';
  for (let n = 0; n < ${typeCount}; n++) publishEvent({ eventType: 'TYPE_' + n }, () => n)();
  const cpu = (spent) => console.log('cpu ' + spent + ' ' + Object.values(process.cpuUsage()).reduce((sum, us) => sum + us) / 1_000);
  let asked = 0;
  process.on('SIGUSR2', () => cpu(++asked));
  setInterval(() => {}, 1_000);`;

describe('the console of a process with 60 event types and targets', function () {
  this.timeout(60_000);
  let app: RunningApp;
  after(() => app?.kill('SIGKILL'));

  it(`costs less than 1 % of a core with ${pages} pages open`, async () => {
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
    let after = 0;
    const look = async (): Promise<ConsoleDocument> => {
      const answer = await fetch(`http://127.0.0.1:${port}/actuator/svc/console.json?after=${after}`);
      assert.equal(answer.status, 200);
      return (await answer.json()) as ConsoleDocument;
    };
    const first = await look();
    assert.deepEqual(
      [first.typeCount, first.targets.length, first.trends.length],
      [typeCount, typeCount, 50],
    );
    after = first.atMs;
    for (let round = 0; round < 20; round++) await look();
    const costs = async (work: () => Promise<unknown>): Promise<number> => {
      const before = await spentMs();
      for (let asked = 0; asked < rounds * pages; asked++) {
        await work();
        await sleep(everyMs / pages);
      }
      return ((await spentMs()) - before) / (rounds * everyMs);
    };
    // CPU time, which a busy machine does not stretch as it does time; without pages the process has its own to do.
    const idle = await costs(async () => {});
    const share = (await costs(look)) - idle;
    assert.ok(share > 0 && share < 0.01, `${(share * 100).toFixed(2)} % of a core`);
  });
});
