import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { startKafka, type TestKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { plainApp } from '../support/apps.ts';
import { startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

/** As on a platform that freezes a process with its answer: it stops itself in the very turn. */
const main = `
  import { flush, publish } from 'svc';
  async function order(id) { return { id }; }
  const freeze = (answer) => { console.log(answer); process.kill(process.pid, 'SIGSTOP'); };
  await order('warm');
  console.log('warm ' + await flush(10_000));
  await order('flushed');
  freeze('frozen ' + await flush(10_000));
  await order('left');
  freeze('frozen again');
  console.log('thawed ' + await flush(10_000));
  console.log(await flush('soon').catch((error) => error.message));
`;

/** Continues a process that has stopped. A signal that came before would have no effect, and the process would stay stopped. */
async function thaw({ pid }: ChildProcess): Promise<void> {
  while (process.platform === 'linux' && !/^\d+ \(.*\) T/.test(readFileSync(`/proc/${pid}/stat`, 'latin1')))
    await sleep(10);
  process.kill(pid as number, 'SIGCONT');
}

requiring('kafka', 'flush()', function () {
  this.timeout(180_000);
  let kafka: TestKafka;
  let app: string;
  before(async () => {
    app = plainApp();
    kafka = await startKafka();
  });

  it('brings the events to Kafka before a process is frozen after its answer', async () => {
    const topic = `flush-${randomBytes(4).toString('hex')}`;
    await kafka.createTopic(topic);
    const targets = [{ module: './main.mjs', function: 'order', eventType: 'ORDERED' }];
    const broker = { client: 'kafkajs', bootstrapServers: kafka.brokers, topic, asyncMode: true };
    const running = await startApp({
      app,
      files: { 'main.mjs': main, 'svc.config.json': configOf(targets, { broker }) },
      timeoutMs: 60_000,
    });
    await running.waitFor(/^warm true$/m);
    await running.waitFor(/^frozen true$/m);
    assert.equal(await kafka.count(topic), 2);
    await thaw(running.child);
    await running.waitFor(/^frozen again$/m);
    await sleep(300);
    assert.equal(await kafka.count(topic), 2, 'without flush() it waits in memory');
    await thaw(running.child);
    const { code, stdout } = await running.ended;
    assert.match(stdout, /^thawed true$/m);
    assert.match(stdout, /^flush\(\): deadlineMs must be a number of milliseconds from 0 to 2147483647$/m);
    assert.deepEqual([code, await kafka.count(topic)], [0, 3]);
  });
});
