import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createConnections, createDialPace } from '../../../../src/adapters/kafka/transport.ts';
import { useClock } from '../../../support/fake-time.ts';
import { startSilentServer } from '../../../support/silent-server.ts';
import { kafkaClients } from '../kafka-clients.ts';
import { kafkaOptions } from '../kafka-options.ts';

for (const { name, load } of kafkaClients)
  describe(`connections through ${name}`, () => {
    const create = async (nowMs: () => number = () => 0) => {
      const options = kafkaOptions([], { requestTimeoutMs: 30_000 });
      useClock({ monotonic: nowMs });
      const pace = createDialPace<unknown>();
      return createConnections(await load(options), options, pace);
    };

    it('repeats a refusal where it is not the turn of the broker, and connects when it is', async () => {
      let nowMs = 0;
      const connections = await create(() => nowMs);
      const server = createServer((socket) => void socket.destroy());
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as { port: number };
      server.close();
      const address = { host: '127.0.0.1', port };
      const errors: unknown[] = [];
      for (nowMs of [0, 100, 200, 300, 10_000])
        await assert.rejects(
          async () => connections.get(address),
          (error) => errors.push(error) > 0,
        );
      const [, second, third, fourth, later] = errors;
      assert.deepEqual([third === second, fourth === second], [true, true]);
      assert.notEqual(later, second, 'it was tried');
      connections.close();
    });

    it('leaves one alone that has just begun to open when it is renewed', async () => {
      const silent = await startSilentServer();
      const connections = await create();
      const [host = '', port] = silent.address.split(':');
      const opening = connections.get({ host, port: Number(port) });
      await silent.spokenTo;
      connections.renew();
      assert.equal(connections.get({ host, port: Number(port) }), opening);
      connections.close();
      await assert.rejects(async () => opening);
      silent.close();
    });

    it('gives up one that is opening when it is dropped', async () => {
      const silent = await startSilentServer();
      const connections = await create();
      const [host = '', port] = silent.address.split(':');
      const address = { host, port: Number(port) };
      const opening = connections.get(address);
      await silent.spokenTo;
      connections.drop(address);
      await assert.rejects(async () => opening, { name: 'Error' });
      assert.notEqual(connections.get(address), opening);
      connections.close();
      silent.close();
    });
  });
