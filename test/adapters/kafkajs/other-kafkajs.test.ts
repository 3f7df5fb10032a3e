import assert from 'node:assert/strict';
import { brokerPoolOf } from '../../../src/adapters/kafkajs/broker-pool.ts';
import type { KafkajsClient } from '../../../src/adapters/kafkajs/kafkajs-client.ts';
import { patchProduce } from '../../../src/adapters/kafkajs/wire/produce-patch.ts';
import { patchRequestQueue } from '../../../src/adapters/kafkajs/wire/request-queue-patch.ts';
import type { Logger } from '../../../src/observe/logger.ts';
import { kafkaOptions } from '../kafka/kafka-options.ts';

function listening(): { logger: Logger; lines: string[] } {
  const lines: string[] = [];
  return { logger: { ...kafkaOptions([]).logger, warn: (line) => void lines.push(line) }, lines };
}

describe('a kafkajs that svc does not know is used as it is', () => {
  const send = Symbol('private:Broker:sendRequest');
  const method = (): void => {};
  const broker = { produce: method, [send]: method };
  const sound = {
    version: '2.2.4',
    prototype: broker,
    requests: { Produce: method },
    encoder: { writeEncoder: method },
  };
  const parts: Readonly<Record<string, object>> = {
    'another version': { ...sound, version: '2.3.0' },
    'no version': { ...sound, version: undefined },
    'no produce()': { ...sound, prototype: { ...broker, produce: undefined } },
    'another way to send': { ...sound, prototype: { produce: method } },
    'no request to produce': { ...sound, requests: {} },
    'no requests': { ...sound, requests: undefined },
    'no broker': { ...sound, prototype: undefined },
    'no writeEncoder()': { ...sound, encoder: {} },
  };

  it('records go through it one by one, and svc says so once', async () => {
    const { logger, lines } = listening();
    for (const [title, found] of Object.entries(parts)) {
      const before = JSON.stringify(found);
      assert.equal(await patchProduce(logger, async () => found as never), false, title);
      assert.equal(JSON.stringify(found), before, title);
      assert.equal(broker.produce, method, title);
    }
    assert.equal(await patchProduce(logger, () => Promise.reject(new Error('no such module'))), false);
    assert.equal(lines.length, 1);
    assert.match(
      lines[0] as string,
      /^kafkajs 2\.3\.0 is not the one that svc knows \(2\.2\.4\): each record/,
    );
  });

  it('its timers are its own, and svc says so once', async () => {
    const { logger, lines } = listening();
    const queue = { destroy: method };
    for (const found of [['2.3.0', queue] as const, ['2.2.4', queue] as const, ['2.2.4', undefined] as const])
      await patchRequestQueue(logger, async () => found as never);
    await patchRequestQueue(logger, () => Promise.reject(new Error('no such module')));
    assert.equal(queue.destroy, method);
    assert.equal(lines.length, 1);
    assert.match(lines[0] as string, /CPU and not end/);
  });

  it('its brokers are asked nothing where the way to them is another', () => {
    const create = Symbol('private:Kafka:createCluster');
    const clients: readonly object[] = [
      {},
      { [create]: undefined },
      { [create]: () => undefined },
      { [create]: () => ({}) },
      { [create]: () => ({ brokerPool: { connect: method } }) },
    ];
    for (const kafka of clients)
      assert.throws(() => brokerPoolOf({ kafka } as unknown as KafkajsClient), /no way to its brokers/);
    const brokerPool = { connect: method, disconnect: method };
    const kafka = { [create]: () => ({ brokerPool }) };
    assert.equal(brokerPoolOf({ kafka } as unknown as KafkajsClient), brokerPool);
  });

  it('what the application sends with the patched one may be anything', async () => {
    // @ts-expect-error kafkajs has no types for its inner modules.
    const { prototype } = (await import('kafkajs/src/broker/index.js')).default;
    assert.equal(await patchProduce(), true);
    const failures = await Promise.all(
      [{}, { topicData: [] }, { topicData: [{}] }, { topicData: [{ partitions: [{}] }] }].map((options) =>
        Promise.resolve()
          .then(() => prototype.produce.call({ lookupRequest: () => assert.fail('kafkajs itself') }, options))
          .catch(({ message }: Error) => message),
      ),
    );
    assert.deepEqual(new Set(failures), new Set(['kafkajs itself']));
  });
});
