import assert from 'node:assert/strict';
import kafkajs, { type Admin, type AdminConfig } from 'kafkajs';
import sinon from 'sinon';
import { kafkajsTopics } from '../../../src/adapters/kafkajs/kafkajs-topic-reader.ts';
import { startKafka, type TestKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { kafkaOptions } from '../kafka/kafka-options.ts';

/** As kafkajs throws it, with its own names of old. */
const refusal = (type: string): Error =>
  Object.assign(new Error(type), { name: 'KafkaJSProtocolError', type });

requiring('kafka', 'the offsets of a recovery', () => {
  let kafka: TestKafka;
  before(async function () {
    this.timeout(60_000);
    kafka = await startKafka();
    await kafka.createTopic('offsets-loading');
  });
  afterEach(() => sinon.restore());

  /** Opens a reader for whom Kafka refuses the first questions about offsets, and tells how many were asked. */
  async function asked(type: string, refusals: number): Promise<number> {
    let questions = 0;
    const { admin } = kafkajs.Kafka.prototype;
    sinon.stub(kafkajs.Kafka.prototype, 'admin').callsFake(function (
      this: kafkajs.Kafka,
      config?: AdminConfig,
    ) {
      const real: Admin = admin.call(this, config);
      const fetchOffsets: Admin['fetchOffsets'] = async (options) => {
        if (++questions <= refusals) throw refusal(type);
        return real.fetchOffsets(options);
      };
      return { ...real, fetchOffsets };
    });
    const reader = kafkajsTopics.reader({
      ...kafkaOptions(kafka.brokers),
      topic: 'offsets-loading',
      group: 'offsets-loading',
    });
    try {
      await reader.open(true);
    } finally {
      await reader.close();
    }
    return questions;
  }

  for (const type of [
    'GROUP_LOAD_IN_PROGRESS',
    'NOT_COORDINATOR_FOR_GROUP',
    'GROUP_COORDINATOR_NOT_AVAILABLE',
  ])
    it(`are asked for again after ${type}`, async () => {
      assert.equal(await asked(type, 3), 4);
    });

  it('are asked for once if the group is not allowed', async () => {
    await assert.rejects(asked('GROUP_AUTHORIZATION_FAILED', 1), /GROUP_AUTHORIZATION_FAILED|group/);
  });
});
