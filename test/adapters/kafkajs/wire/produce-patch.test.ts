import assert from 'node:assert/strict';
import type { Message, Producer } from 'kafkajs';
import { codecNumbers } from '../../../../src/adapters/kafka/records/protocol-numbers.ts';
import { type KafkajsClient, loadKafkajs } from '../../../../src/adapters/kafkajs/kafkajs-client.ts';
import { createTopicProducer } from '../../../../src/adapters/kafkajs/topic-producer.ts';
import { patchProduce } from '../../../../src/adapters/kafkajs/wire/produce-patch.ts';
import { startKafka, type TestKafka } from '../../../support/kafka.ts';
import { requiring } from '../../../support/requires.ts';
import { kafkaOptions, textRecord } from '../../kafka/kafka-options.ts';

requiring('kafka', 'a batch as one message of kafkajs', function () {
  this.timeout(30_000);
  let kafka: TestKafka;
  let sent: Message[][];
  const records = ['a', 'b', 'c'].map(textRecord);

  before(async () => {
    kafka = await startKafka();
  });

  /** A producer whose messages are seen, and may be changed, on their way into kafkajs, as instrumentations do. */
  async function producerThrough(
    change: (messages: Message[]) => Message[],
    canCarry?: boolean,
    compression: 'none' | 'zstd' = 'none',
  ) {
    sent = [];
    const openClient = await loadKafkajs(kafkaOptions(kafka.brokers, { compression }));
    const open = (): KafkajsClient => {
      const client = openClient();
      const original = client.kafka.producer.bind(client.kafka);
      client.kafka.producer = (config) => {
        const producer = original(config);
        const send = producer.send.bind(producer);
        const seen: Producer['send'] = (record) => {
          sent.push(record.messages);
          return send({ ...record, messages: change(record.messages) });
        };
        return Object.assign(producer, { send: seen });
      };
      return canCarry === undefined ? client : { ...client, canCarry };
    };
    const topic = `carried-${process.hrtime.bigint()}`;
    await kafka.createTopic(topic, { partitions: 2 });
    const settings = {
      makesTopics: true,
      seedCount: 1,
      requestTimeoutMs: 5_000,
      acks: -1,
      compression: codecNumbers[compression],
    };
    return { topic, producer: createTopicProducer({ topic, open, ...settings }) };
  }

  const stored = async (topic: string): Promise<unknown[]> =>
    (await kafka.read(topic)).map(({ value }) => JSON.parse(value as string));

  for (const compression of ['none', 'zstd'] as const) {
    it(`is what kafkajs gets, and each record arrives; compression: ${compression}`, async () => {
      const { topic, producer } = await producerThrough((messages) => messages, undefined, compression);
      const mark = { written: false };
      assert.equal(await producer.send(1, records, mark), 1);
      assert.equal(mark.written, true);
      assert.deepEqual(
        sent.map(({ length }) => length),
        [1],
      );
      assert.deepEqual(await stored(topic), ['a', 'b', 'c']);
      await producer.close();
    });
  }

  it('survives an instrumentation that copies messages and adds headers', async () => {
    const { topic, producer } = await producerThrough((messages) =>
      messages.map((message) => ({ ...message, headers: { 'x-trace': '1' } })),
    );
    assert.equal(await producer.send(0, records, { written: false }), 1);
    assert.equal(sent.length, 1);
    assert.deepEqual(await stored(topic), ['a', 'b', 'c']);
    await producer.close();
  });

  it('is given up, and nothing is lost, where something makes other messages of it', async () => {
    const { topic, producer } = await producerThrough((messages) =>
      messages.map(({ key = null, value, partition }) => ({ key, value, partition: partition as number })),
    );
    for (let send = 0; send < 2; send++) assert.equal(await producer.send(0, records, { written: false }), 1);
    assert.deepEqual(
      sent.map(({ length }) => length),
      [1, 3, 3],
    );
    assert.deepEqual(await stored(topic), ['a', 'b', 'c', 'a', 'b', 'c']);
    await producer.close();
  });

  it('is not used with another kafkajs, nor where the client places the records', async () => {
    for (const [canCarry, partition] of [
      [false, 0],
      [true, undefined],
    ] as const) {
      const { topic, producer } = await producerThrough((messages) => messages, canCarry);
      await producer.send(partition, records, { written: false });
      assert.deepEqual(
        sent.map(({ length }) => length),
        [3],
      );
      assert.equal(await kafka.count(topic), 3);
      await producer.close();
    }
  });

  it('patches the version that svc is made for, once', async () => {
    // @ts-expect-error kafkajs has no types for its inner modules.
    const { prototype } = (await import('kafkajs/src/broker/index.js')).default;
    assert.equal(await patchProduce(), true);
    const { produce } = prototype;
    assert.equal(await patchProduce(), true);
    assert.equal(prototype.produce, produce);
  });
});
