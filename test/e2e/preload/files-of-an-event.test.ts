import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type OwnKafka, startOwnKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { plainApp } from '../support/apps.ts';
import { startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

const root = resolve(import.meta.dirname, '../../..');

/** V8 counts the calls only of functions that are compiled later. */
const preload = `
  import { Session } from 'node:inspector/promises';
  globalThis.session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  const { preload } = await import('${pathToFileURL(join(root, 'src/preload/preload.ts')).href}');
  preload();`;

/** Says which files of svc have functions that ran between two marks. */
const main = `
  import { readFileSync, existsSync } from 'node:fs';
  import { setTimeout as sleep } from 'node:timers/promises';
  import { fileURLToPath } from 'node:url';
  async function order(id) { return { id }; }
  await order(1);
  for (const name of ['sent', 'outage']) {
    while (!existsSync(name)) await sleep(50);
    await session.post('Profiler.takePreciseCoverage');
    await order(name);
    await sleep(300);
    if (name === 'outage') while (!existsSync('back')) await sleep(50);
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const files = new Set();
    for (const { url, functions } of result) {
      const file = /.*\\/src\\/(.*\\.ts)$/.exec(url)?.[1];
      if (file === undefined || url.includes('node_modules')) continue;
      const ran = functions.filter(({ functionName, ranges: [{ count }] }) => count > 0 && functionName !== '');
      if (ran.length > 0) files.add(file);
    }
    console.log(name + ' ' + JSON.stringify([...files].sort()));
  }`;

requiring('own-kafka', 'the files of an event', function () {
  this.timeout(240_000);
  let kafka: OwnKafka;
  before(async () => {
    kafka = await startOwnKafka();
  });
  after(() => kafka?.stop());

  it('are those that docs/architecture.md lists: from the call to the socket, and through an outage and back', async () => {
    const topic = 'files';
    await kafka.createTopic(topic);
    const broker = { topic, 'bootstrap-servers': kafka.brokers, 'delivery-timeout-ms': 8_000 };
    const targets = [{ module: './main.mjs', function: 'order', eventType: 'ORDERED' }];
    const files = {
      'svc.config.json': configOf(targets, { broker }),
      'main.mjs': main,
      'count.mjs': preload,
    };
    const args = ['--import', './count.mjs', 'main.mjs'];
    const running = await startApp({ app: plainApp(), args, files, timeoutMs: 120_000 });
    const go = (name: string): void => writeFileSync(join(running.folder, name), '');
    await kafka.read(topic, { count: 1 });
    go('sent');
    await running.waitFor(/^sent /m);
    await kafka.pause();
    go('outage');
    await running.waitFor(/kept in the backup/);
    await kafka.resume();
    await kafka.read(topic, { count: 3 });
    go('back');
    await running.waitFor(/^outage /m);
    const { code, stdout, stderr } = await running.ended;
    assert.equal(code, 0, stderr);
    const [sent = [], outage = [], beside = []] = listed();
    assert.deepEqual([sent.length, outage.length], [24, 8], 'these figures only fall');
    const ran = (name: string): string[] =>
      JSON.parse(new RegExp(`^${name} (.*)$`, 'm').exec(stdout)?.[1] ?? '');
    const unlisted = (name: string, lists: readonly string[]): string[] =>
      ran(name).filter((file) => !lists.includes(file));
    // A slow machine may take an answer for a failure, and what empties the backup looks into it every few seconds.
    assert.deepEqual(unlisted('sent', [...sent, ...outage, ...beside]), []);
    assert.deepEqual(unlisted('outage', [...sent, ...outage, ...beside]), []);
    const idle = [...sent, ...outage].filter(
      (file) => !ran('sent').includes(file) && !ran('outage').includes(file),
    );
    assert.deepEqual(idle, []);
  });
});

/** The three lists of the document: a folder and its files in each line. */
function listed(): string[][] {
  const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8');
  const part = page.split('## Files of an event')[1]?.split('\n## ')[0] ?? '';
  return [...part.matchAll(/^```\n([\s\S]*?)^```/gm)].map(([, lines = '']) =>
    lines
      .trim()
      .split('\n')
      .flatMap((line) => {
        const [folder, ...names] = line.split(/ +/);
        return names.map((name) => `${folder}${name}.ts`);
      }),
  );
}
