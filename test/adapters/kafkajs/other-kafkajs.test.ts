import assert from 'node:assert/strict';
import type { Kafka } from 'kafkajs';
import { clusterOf, patchRequestQueue } from '../../../src/adapters/kafkajs/kafkajs-client.ts';
import { useLogger } from '../../support/log.ts';

function listening(): string[] {
  const lines: string[] = [];
  useLogger({ warn: (line) => void lines.push(line) });
  return lines;
}

describe('a kafkajs that svc does not know is used as it is', () => {
  const method = (): void => {};

  it('its timers are its own, and svc says so once', async () => {
    const lines = listening();
    const queue = { destroy: method };
    for (const found of [['2.3.0', queue] as const, ['2.2.4', queue] as const, ['2.2.4', undefined] as const])
      await patchRequestQueue(async () => found as never);
    await patchRequestQueue(() => Promise.reject(new Error('no such module')));
    assert.equal(queue.destroy, method);
    assert.equal(lines.length, 1);
    assert.match(lines[0] as string, /CPU, and may not exit/);
  });

  it('it is refused where the way to its brokers is another', () => {
    const create = Symbol('private:Kafka:createCluster');
    for (const kafka of [{}, { [create]: undefined }])
      assert.throws(
        () => clusterOf(kafka as unknown as Kafka, {}),
        /does not know how this version of kafkajs reaches/,
      );
    const cluster = { brokerPool: {} };
    assert.equal(clusterOf({ [create]: () => cluster } as unknown as Kafka, {}), cluster);
  });
});
