import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadConfig } from '../../../src/config/read/load.ts';
import { inspectBroker } from '../../../src/start/commands/inspect.ts';
import { type SilentServer, startSilentServer } from '../../support/silent-server.ts';

describe('inspecting a broker', () => {
  let silent: SilentServer;
  before(async () => {
    silent = await startSilentServer();
  });
  after(() => silent.close());

  for (const client of ['kafkajs', 'platformatic'])
    it(`${client}: ends after its limit, whatever the clients wait for`, async () => {
      const broker = {
        client,
        bootstrapServers: [silent.address],
        topic: 'orders',
        requestTimeoutMs: 60_000,
      };
      const { config, problems } = loadConfig({ code: { svc: { broker } } });
      assert.deepEqual(problems, []);
      await assert.rejects(inspectBroker(config, 100), {
        message: `no answer from Kafka (${silent.address}) within 100 ms`,
      });
      for (let look = 0; look < 200 && silent.connections() > 0; look++) await sleep(5);
      assert.equal(silent.connections(), 0);
    });
});
