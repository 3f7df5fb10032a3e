import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startKafka, type TestKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { kafkaClients } from './kafka-clients.ts';

const fixture = join(import.meta.dirname, 'fixtures/idle-process.ts');

for (const { name } of kafkaClients) {
  requiring('kafka', `a process with ${name} inside`, function () {
    this.timeout(60_000);
    let kafka: TestKafka;

    before(async () => {
      kafka = await startKafka();
    });

    it('costs under 0.5 % of a core when idle, prints nothing of its own, and ends by itself', async () => {
      const topic = `idle.${Date.now()}`;
      await kafka.createTopic(topic);
      const measureMs = 3000;
      const run = promisify(execFile)(
        process.execPath,
        [fixture, name, kafka.brokers[0] ?? '', topic, String(measureMs)],
        { timeout: 15_000 },
      );
      const { stdout, stderr } = await run;
      const { idleCpuMs, ...rest } = JSON.parse(stdout);
      assert.deepEqual(rest, { connected: { ok: true }, sent: { ok: true }, nodeCount: 1 });
      assert.ok(idleCpuMs < measureMs * 0.005, `${idleCpuMs} ms of CPU in ${measureMs} ms`);
      assert.equal(stderr, '');
    });
  });
}
