import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import sinon from 'sinon';
import { publishEvent } from '../../src/capture/declare/publish-event.ts';
import { clock as svcClock } from '../../src/ground/clock.ts';
import { newTopic } from '../contract/broker.ts';
import { startKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const hourMs = 3_600_000;
const aheadMs = 3 * hourMs;

requiring('kafka', 'a machine whose clock is three hours ahead, without an outbox', function () {
  this.timeout(120_000);
  let svc: StartedSvc;
  let clock: sinon.SinonStub | undefined;
  afterEach(async () => {
    clock?.restore();
    await svc.end();
  });

  for (const client of ['kafkajs', 'platformatic'])
    it(`${client}: its events wait in the backup, and go to their topic as they are once the clock is right`, async () => {
      const kafka = await startKafka();
      const topic = newTopic();
      await kafka.createTopic(topic, { config: { 'message.timestamp.after.max.ms': String(hourMs) } });
      clock = sinon.stub(svcClock, 'now').callsFake(() => Date.now() + aheadMs);
      svc = startSvc({ client, topic, bootstrapServers: kafka.brokers, dlqTopic: newTopic() });
      svc.service.resume();
      const call = publishEvent({ eventType: 'Ordered' }, async (id: number) => ({ id }));
      for (let id = 0; id < 3; id++) await call(id);
      while (svc.service.pending() > 0) await sleep(50);
      assert.equal(svc.backup().length, 3);
      assert.match(svc.lines.join('\n'), /error: .*from this machine's clock .*: set the clock/);
      assert.equal(await kafka.count(topic), 0);

      clock.restore();
      const records = await kafka.read(topic, { count: 3, timeoutMs: 60_000 });
      for (const { timestamp, value } of records) {
        assert.ok(Math.abs(timestamp - Date.now()) < hourMs / 2);
        const { occurredAt } = JSON.parse(String(value));
        assert.ok(Math.abs(Date.parse(occurredAt) - Date.now() - aheadMs) < hourMs / 2, occurredAt);
      }
      // Ids would come twice: those of a clock that was set back are refused, and seen to be.
      await call(3);
      const port = svc.info.join('\n').match(/management on http:\/\/127\.0\.0\.1:(\d+)/)?.[1];
      const health = await (await fetch(`http://127.0.0.1:${port}/actuator/health/svc`)).text();
      assert.match(health, /"error":"Events are refused: [^"]*clock/i);
    });
});
