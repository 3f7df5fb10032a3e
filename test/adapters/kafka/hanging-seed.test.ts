import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { startKafka, type TestKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { startSilentServer } from '../../support/silent-server.ts';
import { kafkaClients } from './kafka-clients.ts';
import { kafkaOptions, textRecord } from './kafka-options.ts';

for (const { name, create } of kafkaClients)
  requiring(
    'kafka',
    `${name} beside a broker of the list that takes connections and never answers`,
    function () {
      this.timeout(60_000);
      let kafka: TestKafka;

      before(async () => {
        kafka = await startKafka();
      });

      it('asks the next one after a connection time-out, and no other send waits for it', async () => {
        const silent = await startSilentServer();
        const topic = `seeds-${process.pid}-${Date.now()}`;
        await kafka.createTopic(topic);
        const options = kafkaOptions([silent.address, ...kafka.brokers], {
          ...{ requestTimeoutMs: 30_000, connectionTimeoutMs: 1_000 },
        });
        const broker = create(options);
        const startMs = performance.now();
        assert.deepEqual(await broker.send(topic, 0, [textRecord('x')]), { ok: true });
        const tookMs = performance.now() - startMs;
        assert.ok(tookMs > 900 && tookMs < 10_000, `${tookMs} ms`);
        assert.deepEqual(await broker.send(topic, 0, [textRecord('x')]), { ok: true });
        assert.equal(await kafka.count(topic), 2);
        await broker.close(1_000);
        silent.close();
      });

      it('and one that speaks something else is left as soon as it has said so', async () => {
        const sockets: Socket[] = [];
        const server = createServer((socket) => {
          sockets.push(socket.on('error', () => {}));
          socket.write('HTTP/1.1 400 Bad Request\r\n\r\n');
        });
        await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
        const { port } = server.address() as { port: number };
        const broker = create(kafkaOptions([`127.0.0.1:${port}`, ...kafka.brokers]));
        assert.equal((await broker.describe()).nodeCount, 1);
        await broker.close(1_000);
        for (const socket of sockets) socket.destroy();
        server.close();
      });
    },
  );
