import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { createKafkajsBroker } from '../../../src/adapters/kafkajs/kafkajs-broker.ts';
import { type OwnKafka, startOwnKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { kafkaOptions, textRecord } from '../kafka/kafka-options.ts';

requiring('own-kafka', 'kafkajs and a broker that hangs', function () {
  this.timeout(60_000);
  let kafka: OwnKafka;
  before(async () => {
    kafka = await startOwnKafka();
  });
  after(() => kafka?.stop());

  it('is asked to give up on a send, and waits while no broker tells of another leader', async () => {
    await kafka.createTopic('patience');
    const slow = createKafkajsBroker(kafkaOptions(kafka.brokers, { requestTimeoutMs: 30_000 }));
    assert.deepEqual(await slow.send('patience', 0, [textRecord('before')]), { ok: true });
    assert.equal(await slow.giveUpOn?.('patience', 0), undefined, 'nothing is under way');
    await kafka.pause();
    const during = slow.send('patience', 0, [textRecord('during')]);
    try {
      await sleep(100);
      const start = performance.now();
      assert.equal(await slow.giveUpOn?.('patience', 0), undefined);
      assert.equal(await slow.giveUpOn?.('patience', 1), undefined);
      assert.ok(performance.now() - start < 4_000, 'the question has a time-out of its own');
    } finally {
      await kafka.resume();
    }
    assert.deepEqual(await during, { ok: true });
    assert.equal(await kafka.count('patience'), 2);
    await slow.close(1_000);
  });
});
