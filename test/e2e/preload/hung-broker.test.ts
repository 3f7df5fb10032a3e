import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type OwnKafka, startOwnKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { plainApp, platformaticApp } from '../support/apps.ts';
import { startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

/** Nothing keeps it alive but what it awaits. */
const main = `
  import { existsSync } from 'node:fs';
  async function order(id) { return { id }; }
  const say = (what) => console.log(what + ' after ' + Math.round(performance.now()));
  say(JSON.stringify(await order(1)));
  while (!existsSync('go')) await new Promise((resolve) => setTimeout(resolve, 50));
  say(JSON.stringify(await order(2)));
  say(JSON.stringify(await order(3)));
  say('end');`;

const apps = { kafkajs: plainApp, platformatic: platformaticApp };

for (const client of ['kafkajs', 'platformatic'] as const)
  requiring('own-kafka', `a process whose broker hangs: ${client}`, function () {
    this.timeout(240_000);
    let app: string;
    let kafka: OwnKafka;
    before(async () => {
      app = apps[client]();
      kafka = await startOwnKafka();
    });
    after(() => kafka?.stop());
    afterEach(() => kafka.resume());

    // In the first the next event waits in memory, and nobody else keeps the process alive. In the second it was sent: its
    // answer is waited for.
    const topics = { 'made-by-its-first-event': 12_000, 'there-before': 14_000 };
    for (const [topic, limitMs] of Object.entries(topics))
      it(`has its answers, and ends as soon as its events are in the backup: topic ${topic}`, async () => {
        if (topic === 'there-before') await kafka.createTopic(topic);
        const broker = { topic, client, 'bootstrap-servers': kafka.brokers, 'delivery-timeout-ms': 8_000 };
        const targets = [{ module: './main.mjs', function: 'order', eventType: 'ORDERED' }];
        const files = { 'svc.config.json': configOf(targets, { broker }), 'main.mjs': main };
        const running = await startApp({ app, files, timeoutMs: 90_000 });
        await running.waitFor(/^\{"id":1\}/m);
        await kafka.pause();
        const goneMs = performance.now();
        writeFileSync(join(running.folder, 'go'), '');
        await running.waitFor(/^end/m);
        const { code, stdout, stderr } = await running.ended;
        const endedMs = performance.now() - goneMs;
        assert.equal(code, 0, stderr);
        assert.match(stdout, /\{"id":2\}[\s\S]*\{"id":3\}/);
        assert.ok(endedMs < limitMs, `${endedMs} ms\n${stderr}`);
        const kept = readdirSync(join(running.folder, 'dlq-backup'), { recursive: true, encoding: 'utf8' });
        assert.ok(
          kept.some((name) => /\.(json|ndjson)$/.test(name)),
          `${kept}\n${stderr}`,
        );
        assert.doesNotMatch(stderr, /lost/);
      });
  });
