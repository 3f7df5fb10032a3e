import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { type ClusterMetadata, metadataRequest } from '../../../../src/adapters/kafka/protocol.ts';
import { bodyOf } from '../../../../src/adapters/kafka/transport.ts';
import { newTopic } from '../../../contract/broker.ts';
import { startKafka, type TestKafka } from '../../../support/kafka.ts';
import { requiring } from '../../../support/requires.ts';

/** One request on a connection of its own; resolves with the body of the answer. */
function exchange(address: string, apiKey: number, version: number, body: Buffer): Promise<Buffer> {
  const head = Buffer.alloc(14);
  head.writeInt32BE(10 + body.length, 0);
  head.writeInt16BE(apiKey, 4);
  head.writeInt16BE(version, 6);
  head.writeInt32BE(1, 8); // Correlation id, and a client id of no letters.
  const [host, port] = address.split(':');
  return new Promise((resolve, reject) => {
    let answer = Buffer.alloc(0);
    const socket = connect({ host, port: Number(port) }, () => socket.write(Buffer.concat([head, body])));
    socket.once('error', reject);
    socket.on('data', (chunk) => {
      answer = Buffer.concat([answer, chunk]);
      if (answer.length < 4 || answer.length < 4 + answer.readInt32BE(0)) return;
      socket.destroy();
      resolve(answer.subarray(8));
    });
  });
}

requiring('kafka', 'metadata in the versions that svc knows', function () {
  this.timeout(30_000);
  let kafka: TestKafka;
  before(async () => {
    kafka = await startKafka();
  });

  const { oldest, newest } = metadataRequest([], false);
  /** https://kafka.apache.org/protocol#The_Messages_Metadata */
  const [withRights, withIds] = [8, 10];
  for (let version = oldest; version <= newest; version++) {
    it(`version ${version}: partitions, a topic that is missing, rights from ${withRights} on, ids from ${withIds} on`, async () => {
      const [there, missing] = [newTopic(), newTopic()];
      await kafka.createTopic(there, { partitions: 2 });
      const request = metadataRequest([there, missing], false);
      const { key, write, read } = request;
      const body = Buffer.concat(write(version));
      const [broker = ''] = kafka.brokers;
      for (let time = 1; time <= 2; time++) {
        const bytes = bodyOf(request, await exchange(broker, key, version, body), version);
        const answer = read?.(bytes, version) as ClusterMetadata;
        assert.match(String(answer.clusterId), /^[\w-]{22}$/);
        assert.equal(answer.brokers.length, 1);
        const byName = new Map(answer.topics.map((topic) => [topic.name, topic]));
        const found = byName.get(there);
        assert.deepEqual([found?.errorCode, found?.partitions.length], [0, 2]);
        assert.ok(found?.partitions.every(({ leaderId }) => leaderId >= 0));
        assert.equal(found?.topicAuthorizedOperations !== undefined, version >= withRights);
        assert.equal(found?.id?.length, version >= withIds ? 32 : undefined);
        assert.equal(byName.get(missing)?.errorCode, 3, 'it was made');
      }
    });
  }
});
