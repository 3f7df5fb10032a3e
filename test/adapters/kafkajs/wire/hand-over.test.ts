import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import kafkajs, { type EachBatchHandler } from 'kafkajs';
import sinon from 'sinon';
import { kafkajsTopics } from '../../../../src/adapters/kafkajs/kafkajs-topic-reader.ts';
import { startKafka, type TestKafka } from '../../../support/kafka.ts';
import { requiring } from '../../../support/requires.ts';
import { kafkaOptions } from '../../kafka/kafka-options.ts';

const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

requiring('kafka', 'the hand-over between a consumer and a recovery', () => {
  const topic = 'hand-over';
  let kafka: TestKafka;
  before(async function () {
    this.timeout(60_000);
    kafka = await startKafka();
    await kafka.createTopic(topic);
  });
  afterEach(() => sinon.restore());

  /** A consumer and an admin without timers and sockets of their own, for one record. */
  function standIns(): Promise<EachBatchHandler> {
    const nothing = async () => {};
    sinon.stub(kafkajs.Kafka.prototype, 'admin').returns({
      ...{ connect: nothing, disconnect: nothing, fetchOffsets: async () => [] },
      fetchTopicOffsets: async () => [{ partition: 0, low: '0', high: '1', offset: '1' }],
    } as never);
    return new Promise((running) => {
      sinon.stub(kafkajs.Kafka.prototype, 'consumer').returns({
        ...{ connect: nothing, disconnect: nothing, subscribe: nothing, on() {}, seek() {}, events: {} },
        run: async ({ eachBatch }: { eachBatch: EachBatchHandler }) => running(eachBatch),
      } as never);
    });
  }

  it('keeps no process alive, neither while nothing comes nor while nobody takes', async () => {
    const running = standIns();
    const reader = kafkajsTopics.reader({
      ...{ ...kafkaOptions(kafka.brokers), topic, group: topic, keepsAlive: false },
    });
    await reader.open(true);
    const before = timers();
    const taken = reader.read(1)[Symbol.asyncIterator]().next();
    const eachBatch = await running;
    await turn();
    assert.equal(timers(), before);
    const message = { key: null, value: Buffer.from('one'), headers: {}, offset: '0', timestamp: '0' };
    const given = eachBatch({
      batch: { partition: 0, messages: [message], lastOffset: () => '0' },
      heartbeat: async () => {},
    } as never);
    assert.equal(String((await taken).value?.[0]?.value), 'one');
    assert.equal(timers(), before);
    await reader.close();
    await given;
  });
});
