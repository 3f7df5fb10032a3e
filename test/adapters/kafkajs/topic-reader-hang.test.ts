import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { kafkajsTopics } from '../../../src/adapters/kafkajs/kafkajs-topic-reader.ts';
import { type OwnKafka, startOwnKafka } from '../../support/kafka.ts';
import { silentLog } from '../../support/log.ts';
import { requiring } from '../../support/requires.ts';
import { createKafkajsBroker } from '../kafka/kafka-clients.ts';

const count = 60;
/** Longer than a silence that counts as the end of a topic, shorter than the session of a consumer. */
const hangMs = 20_000;

requiring('own-kafka', 'a broker that hangs while a dead letter topic is read', function () {
  this.timeout(120_000);
  let kafka: OwnKafka;
  before(async () => {
    kafka = await startOwnKafka();
  });
  after(() => kafka.stop());

  it('is waited for: its silence is not the end of the topic', async () => {
    const options = {
      brokers: kafka.brokers,
      clientId: 'test',
      requestTimeoutMs: 60_000,
      connectionTimeoutMs: 3_000,
      logger: silentLog,
    };
    await kafka.createTopic('dead');
    const broker = createKafkajsBroker(options);
    // A fetch brings about ten of them.
    const value = Buffer.alloc(100_000, 'x');
    for (let n = 0; n < count; n++) {
      const record = { key: String(n), value, headers: {}, timestamp: Date.now() };
      assert.deepEqual(await broker.send('dead', 0, [record]), { ok: true });
    }
    await broker.close(5_000);

    const reader = kafkajsTopics.reader({ ...options, topic: 'dead', group: 'g' });
    await reader.open(true);
    let read = 0;
    for await (const batch of reader.read(5)) {
      if (read === 0) {
        await kafka.pause();
        void sleep(hangMs).then(() => kafka.resume());
      }
      read += batch.length;
    }
    await reader.close();
    assert.equal(read, count);
  });
});
