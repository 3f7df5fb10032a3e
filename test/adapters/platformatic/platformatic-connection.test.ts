import assert from 'node:assert/strict';
import { loadPlatformatic, type VendorApi } from '../../../src/adapters/kafka/platformatic-module.ts';
import { encodeRecordBatch } from '../../../src/adapters/kafka/records/record-batch.ts';
import { openConnection } from '../../../src/adapters/platformatic/platformatic-connection.ts';
import { startKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { kafkaOptions, textRecord } from '../kafka/kafka-options.ts';

requiring('kafka', 'a connection of @platformatic/kafka', function () {
  this.timeout(30_000);

  it('writes requests of a version that svc knows, where the package and Kafka know newer ones', async () => {
    const kafka = await startKafka();
    const topic = `newer-${process.hrtime.bigint()}`;
    await kafka.createTopic(topic, { partitions: 1 });
    const vendor = await loadPlatformatic('this test');
    const { api, parseResponse } = vendor.produceV11 as VendorApi;
    const newer = (version: number): VendorApi => {
      const other: VendorApi['api'] = Object.assign(api.bind(undefined), { key: api.key, version });
      return { api: other, parseResponse };
    };
    const settings = {
      vendor: { ...vendor, produceV12: newer(12), produceV13: newer(13) },
      options: kafkaOptions(kafka.brokers),
      certificates: undefined,
      signIn: undefined,
    };
    const [host = '', port] = (kafka.brokers[0] as string).split(':');
    const connection = await openConnection(
      settings,
      { host, port: Number(port) },
      new AbortController().signal,
    );
    const batch = encodeRecordBatch([textRecord('a')]);
    await connection.produce({ topic, partition: 0, acks: -1, timeoutMs: 5_000, batch });
    connection.destroy();
    assert.equal(await kafka.count(topic), 1);
  });
});
