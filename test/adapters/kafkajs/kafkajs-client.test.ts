import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createKafkajsAdmin } from '../../../src/adapters/kafkajs/kafkajs-admin.ts';
import { createKafkajsBroker } from '../../../src/adapters/kafkajs/kafkajs-broker.ts';
import { loadKafkajs } from '../../../src/adapters/kafkajs/kafkajs-client.ts';
import { startKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { kafkaOptions, textRecord } from '../kafka/kafka-options.ts';

describe('clients of kafkajs', () => {
  /** Brokers that take connections and never answer, by the order in which they stand in the configuration. */
  const silent: { server: Server; address: string; sockets: Socket[] }[] = [];

  before(async () => {
    for (let index = 0; index < 2; index++) {
      const sockets: Socket[] = [];
      const server = createServer((socket) => sockets.push(socket.on('error', () => {})));
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      silent.push({ server, address: `127.0.0.1:${(server.address() as AddressInfo).port}`, sockets });
    }
  });
  after(() => {
    for (const { server, sockets } of silent) {
      for (const socket of sockets) socket.destroy();
      server.close();
    }
  });

  it('begin with another broker of the list each: one that hangs does not keep the next from a second', async () => {
    const options = kafkaOptions(
      silent.map(({ address }) => address),
      { requestTimeoutMs: 100, connectionTimeoutMs: 300 },
    );
    const admin = createKafkajsAdmin(await loadKafkajs(options), options);
    const asked = () => silent.map(({ sockets }) => sockets.length);
    for (const expected of [
      [1, 0],
      [1, 1],
      [2, 1],
    ]) {
      await assert.rejects(admin.connect());
      assert.deepEqual(asked(), expected);
    }
    await admin.close();
  });

  requiring('kafka', 'beside a Kafka that answers', function () {
    this.timeout(60_000);

    it('leave a broker that takes the connection of a send and never answers', async () => {
      const kafka = await startKafka();
      const topic = `seeds-${process.pid}-${Date.now()}`;
      await kafka.createTopic(topic);
      const [hanging] = silent as [(typeof silent)[0]];
      const known = hanging.sockets.length;
      const options = kafkaOptions([hanging.address, ...kafka.brokers], { requestTimeoutMs: 30_000 });
      const broker = createKafkajsBroker(options);
      const first = broker.send(topic, 0, [textRecord('x')]);
      while (hanging.sockets.length === known) await sleep(20);

      const failure = await broker.giveUpOn?.(topic, 0);
      assert.deepEqual([failure?.kind, failure?.cause], ['retriable', 'TimeoutException']);
      assert.equal((await first).ok, false);
      assert.deepEqual(await broker.send(topic, 0, [textRecord('x')]), { ok: true });
      await broker.close(1_000);
    });
  });
});
