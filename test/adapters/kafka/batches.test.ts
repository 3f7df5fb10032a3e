import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type {
  KafkaClientOptions,
  KafkaCompression,
} from '../../../src/adapters/kafka/kafka-client-options.ts';
import { kafkajsTopics } from '../../../src/adapters/kafkajs/kafkajs-topic-reader.ts';
import type { Broker, BrokerRecord } from '../../../src/publish/broker.ts';
import { type SecureKafka, startSecureKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { kafkaClients } from './kafka-clients.ts';
import { kafkaOptions, textRecord } from './kafka-options.ts';

const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;

requiring('secure-kafka', 'batches as Kafka stores them', function () {
  this.timeout(120_000);
  let kafka: SecureKafka;
  const opened: Broker[] = [];

  before(async () => {
    kafka = await startSecureKafka();
  });
  after(() => kafka?.stop());
  afterEach(() => Promise.all(opened.splice(0).map((broker) => broker.close(1000))));

  /** The codec in the attributes of each batch, in the file of the broker. */
  function storedCodecs(topic: string): string[] {
    const log = readFileSync(join(kafka.dataFolder, `${topic}-0`, '00000000000000000000.log'));
    const found: string[] = [];
    for (let at = 0; at + 61 <= log.length && log.readInt32BE(at + 8) > 0; at += 12 + log.readInt32BE(at + 8))
      found.push(codecs[log.readInt16BE(at + 21) & 7] ?? 'unknown');
    return found;
  }

  for (const { name, create, compressions } of kafkaClients) {
    describe(name, () => {
      const open = (rest: Partial<KafkaClientOptions>): Broker => {
        const broker = create(kafkaOptions(kafka.brokers, rest));
        opened.push(broker);
        return broker;
      };

      for (const compression of compressions) {
        it(`compresses with ${compression}; Kafka's consumer and the recovery read what was sent`, async () => {
          const topic = `${name}-${compression}`;
          await kafka.createTopic(topic);
          const sent: BrokerRecord[] = Array.from({ length: 50 }, (_, index) => ({
            key: index % 2 === 0 ? null : `key-${index}`,
            value: Buffer.from(JSON.stringify({ index, text: 'Grüße '.repeat(50) })),
            headers: { eventType: 'ORDERED', number: String(index) },
            timestamp: 1_700_000_000_000 + index,
          }));
          const broker = open({ compression });
          assert.deepEqual(await broker.send(topic, 0, sent), { ok: true });
          assert.deepEqual(storedCodecs(topic), [compression]);
          const plain = sent.map(({ value, ...rest }) => ({ ...rest, value: value.toString() }));
          const read = await kafka.read(topic, { count: 50, timeoutMs: 40_000 });
          assert.deepEqual(
            read.map(({ key, headers, timestamp, value }) => ({
              key,
              headers: { ...headers },
              timestamp,
              value,
            })),
            plain,
          );
          assert.deepEqual(await recovered(topic, compression), plain);
        });
      }

      it('waits for nobody with acks 0, and for the broker with 1 and all', async () => {
        const topic = `${name}-acks`;
        await kafka.createTopic(topic);
        const [nobody, leader, all] = (['0', '1', 'all'] as const).map((acks) => open({ acks }));
        for (const broker of [nobody, leader, all])
          assert.deepEqual(await broker?.send(topic, 0, [textRecord('before')]), { ok: true });
        await kafka.pause();
        try {
          const results = await Promise.all(
            [nobody, leader, all].map((broker) => broker?.send(topic, 0, [textRecord('while it hangs')])),
          );
          assert.deepEqual(
            results.map((result) => result?.ok),
            [true, false, false],
          );
        } finally {
          await kafka.resume();
        }
      });
    });
  }

  async function recovered(topic: string, compression: KafkaCompression): Promise<object[]> {
    const options = kafkaOptions(kafka.brokers, { compression });
    const reader = kafkajsTopics.reader({ ...options, topic, group: `${topic}-group` });
    await reader.open(false);
    const found: object[] = [];
    for await (const records of reader.read(100))
      for (const { key, headers, timestamp, value } of records)
        found.push({ key, headers, timestamp, value: value.toString() });
    await reader.close();
    return found;
  }
});
