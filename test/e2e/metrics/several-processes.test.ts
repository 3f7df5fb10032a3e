import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePorts } from '../../../scripts/services/ports.ts';
import { installPacked } from '../../support/packed.ts';
import { plainApp } from '../support/apps.ts';
import { freshFolder, writeFiles } from '../support/run-app.ts';
import { endOf, startApp } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';

const { version, otel, isMatrix } = await subject();
const docs = readFileSync(resolve(import.meta.dirname, '../../../docs/platforms.md'), 'utf8');
const calls = /^svc_events_calls_total\{[^}]*\} (\d+)$/m;
const files = {
  'svc.config.json': JSON.stringify(configOf([{ module: './main.mjs', function: 'order' }])),
};

/** What those of the ports from `first` on answer that svc has, until it is as `expected`. */
async function answered(first: number, expected: readonly number[]): Promise<void> {
  const read = async (port: number) => {
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`).catch(() => undefined);
    return Number(calls.exec((await answer?.text()) ?? '')?.[1] ?? Number.NaN);
  };
  // A few more: others on this machine take ports too.
  const ports = Array.from({ length: expected.length + 4 }, (_, index) => first + index);
  for (const ends = Date.now() + 20_000; ; await delay(100)) {
    const counts = (await Promise.all(ports.map(read))).filter((count) => !Number.isNaN(count));
    try {
      return assert.deepEqual(counts.toSorted(), expected);
    } catch (error) {
      if (Date.now() > ends) throw error;
    }
  }
}

describe('several processes that were given one management port', function () {
  this.timeout(180_000);

  it('of node:cluster: each takes the next, and says so without a warning', async () => {
    const [port] = (await freePorts(1)) as [number];
    const main = `
      import cluster from 'node:cluster';
      function order(id) { return { id }; }
      if (cluster.isPrimary) for (let count = 1; count <= 3; count++) cluster.fork({ COUNT: count });
      else for (let id = 0; id < process.env.COUNT; id++) order(id);
      setInterval(() => {}, 1_000);`;
    const app = await startApp({
      app: plainApp(),
      timeoutMs: 60_000,
      env: { MANAGEMENT_SERVER_PORT: String(port) },
      files: { ...files, 'main.mjs': main },
    });
    // The primary calls nothing.
    await answered(port, [0, 1, 2, 3]);
    const { stderr, topics } = await app.kill('SIGTERM');
    assert.equal(topics.events?.length, 6);
    assert.doesNotMatch(stderr, /svc: (?:warn|error)/);
    const places = [...stderr.matchAll(/management on http:\/\/127\.0\.0\.1:(\d+)/g)];
    assert.deepEqual(places.map(([, each]) => Number(each) - port).toSorted(), [0, 1, 2, 3]);
  });

  // Once in the matrix: pm2 does not depend on the line of OpenTelemetry, and little on Node.
  const once = isMatrix && version.startsWith('26.') && otel === 3 ? it : () => {};

  for (const mode of ['cluster', 'fork'])
    once(`of pm2, in mode ${mode}: each takes the next, and pm2 itself none`, async () => {
      const app = installPacked('pm2', { pm2: '7.0.4', '@opentelemetry/api': '1.10.0' });
      const folder = freshFolder(app, 'pm2');
      const [port] = (await freePorts(1)) as [number];
      const [, ecosystem = ''] = /```js\n(\/\/ ecosystem\.config\.cjs\n[\s\S]*?)```/.exec(docs) ?? [];
      assert.match(ecosystem, /exec_mode: 'cluster'/);
      writeFiles(folder, {
        ...files,
        'ecosystem.config.cjs': ecosystem.replace("'cluster'", `'${mode}'`),
        'main.mjs': 'function order(id) { return { id }; }\norder(1);\nsetInterval(() => {}, 1_000);',
      });
      const pm2 = (...args: string[]) =>
        endOf({
          ...{ app, folder, files: {}, timeoutMs: 60_000 },
          args: [join(app, 'node_modules/pm2/bin/pm2'), ...args],
          env: {
            PM2_HOME: join(folder, '.pm2'),
            MANAGEMENT_SERVER_PORT: String(port),
            // It reaches pm2, its daemon and the applications.
            NODE_OPTIONS: '--import svc/register',
          },
        });
      try {
        const { code, stdout, stderr } = await pm2('start', 'ecosystem.config.cjs');
        assert.equal(code, 0, stdout + stderr);
        assert.doesNotMatch(stdout + stderr, /svc: /);
        await answered(port, [1, 1]);
      } finally {
        await pm2('kill');
      }
    });
});
