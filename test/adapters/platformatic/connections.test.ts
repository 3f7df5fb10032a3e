import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createDialPace } from '../../../src/adapters/kafka/dial-pace.ts';
import { loadPlatformatic } from '../../../src/adapters/kafka/platformatic-module.ts';
import { createConnections } from '../../../src/adapters/platformatic/connections.ts';
import { startSilentServer } from '../../support/silent-server.ts';
import { kafkaOptions } from '../kafka/kafka-options.ts';

describe('connections of platformatic', () => {
  const create = async (nowMs: () => number = () => 0) => {
    const settings = {
      vendor: await loadPlatformatic('this test'),
      options: kafkaOptions([], { requestTimeoutMs: 30_000 }),
      ...{ certificates: undefined, signIn: undefined },
    };
    return createConnections(settings, createDialPace({ now: nowMs, monotonic: nowMs }));
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
});
