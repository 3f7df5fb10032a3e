import assert from 'node:assert/strict';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaRequest } from '../../../../src/adapters/kafka/protocol.ts';
import {
  type BrokerConnection,
  openConnection,
  requestHead,
  type Transport,
} from '../../../../src/adapters/kafka/transport.ts';
import { kafkaOptions } from '../kafka-options.ts';

/** A client whose connections are sockets that need no sign-in. */
const transport =
  (sessionMs = 0): Transport =>
  async ({ host, port }) => ({ socket: connect({ host, port }), sessionMs });

describe('a connection to a broker', () => {
  let server: Server;
  let sockets: Socket[];
  /** What the broker understands, and what it answers to requests with the key 7. */
  let versions: [key: number, oldest: number, newest: number][];
  let answer: (id: number, version: number, body: Buffer) => Buffer | undefined;
  let connection: BrokerConnection;

  beforeEach(async () => {
    sockets = [];
    versions = [[7, 1, 9]];
    answer = (_id, version, body) => Buffer.concat([Buffer.from([version]), body]);
    server = createServer((socket) => {
      sockets.push(socket.on('error', () => {}));
      socket.on('data', (chunk) => {
        for (let at = 0; at < chunk.length; at += 4 + chunk.readInt32BE(at))
          serve(socket, chunk.subarray(at));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterEach(() => {
    connection?.destroy();
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  function serve(socket: Socket, request: Buffer): void {
    const [key, version, id] = [request.readInt16BE(4), request.readInt16BE(6), request.readInt32BE(8)];
    const body = request.subarray(14 + request.readInt16BE(12), 4 + request.readInt32BE(0));
    const answered = key === 18 ? versionsAnswer() : answer(id, version, body);
    if (answered === undefined) return;
    const head = Buffer.alloc(8);
    head.writeInt32BE(4 + answered.length, 0);
    head.writeInt32BE(id, 4);
    const bytes = Buffer.concat([head, answered]);
    // In two pieces, the first of which has no whole length.
    socket.write(bytes.subarray(0, 3));
    setImmediate(() => socket.write(bytes.subarray(3)));
  }

  function versionsAnswer(): Buffer {
    const bytes = Buffer.alloc(6 + 6 * versions.length);
    bytes.writeInt32BE(versions.length, 2);
    for (const [at, numbers] of versions.entries())
      for (const [nth, number] of numbers.entries()) bytes.writeInt16BE(number, 6 + 6 * at + 2 * nth);
    return bytes;
  }

  async function open(requestTimeoutMs = 5_000, sessionMs = 0): Promise<BrokerConnection> {
    const { port } = server.address() as { port: number };
    const options = kafkaOptions([], { requestTimeoutMs });
    const signal = new AbortController().signal;
    connection = await openConnection(transport(sessionMs), options, { host: '127.0.0.1', port }, signal);
    return connection;
  }
  const request = (newest: number, text = 'body', oldest = 2): KafkaRequest<string> => ({
    ...{ key: 7, name: 'Some', oldest, newest },
    write: () => [Buffer.from(text.slice(0, 2)), Buffer.from(text.slice(2))],
    read: (bytes) => `${bytes[0]} ${bytes.toString('utf8', 1)}`,
  });

  it('asks in the newest version that both sides know, and gives each answer to its question', async () => {
    const { ask } = await open();
    assert.deepEqual(await Promise.all([ask(request(4)), ask(request(12, 'other'))]), ['4 body', '9 other']);
  });

  it('asks nothing in a version that one side does not know', async () => {
    const { ask } = await open();
    await assert.rejects(ask(request(12, 'x', 10)), (error: Error) =>
      /no version of Some in common/.test((error.cause as Error).message),
    );
    versions = [];
    await assert.rejects((await open()).ask(request(4)));
  });

  it('fails with the broker that gave no answer in time, closes when the others have theirs, and is not used again', async () => {
    answer = (id, version) => (id === 2 ? undefined : Buffer.from([version]));
    const { ask, isUsable } = await open(200);
    const [late, started] = [ask(request(4)), performance.now()];
    await sleep(100);
    answer = () => undefined;
    const other = ask(request(4));
    await assert.rejects(late, {
      broker: connection && `127.0.0.1:${(server.address() as { port: number }).port}`,
    });
    assert.ok(performance.now() - started < 295, 'the first has its own time');
    assert.equal(isUsable(), false);
    assert.equal(sockets[0]?.readyState, 'open');
    await assert.rejects(other);
    for (let looks = 0; sockets[0]?.readyState === 'open' && looks < 100; looks++) await sleep(10);
    assert.notEqual(sockets[0]?.readyState, 'open');
  });

  it('fails what is under way when it ends, or when something else than Kafka answers', async () => {
    answer = () => undefined;
    const { ask, isUsable } = await open();
    const closed = ask(request(4));
    await sleep(20);
    sockets[0]?.end();
    await assert.rejects(closed);
    assert.equal(isUsable(), false);
    await assert.rejects(ask(request(4)));
    const other = (await open()).ask(request(4));
    sockets[1]?.write('HTTP/1.1 400 Bad Request');
    await assert.rejects(other);
  });

  it('is replaced when four fifths of its session are over', async () => {
    const { isUsable } = await open(5_000, 250);
    assert.equal(isUsable(), true);
    await sleep(220);
    assert.equal(isUsable(), false);
  });
});

describe('the head of a request', () => {
  it('is what kafkajs writes', async () => {
    // @ts-expect-error kafkajs has no types for its inner modules.
    const { default: createRequest } = await import('kafkajs/src/protocol/request.js');
    for (const clientId of ['', 'svc', 'Grüße', 'c'.repeat(2_000)]) {
      const body = Buffer.from('body');
      const encode = async () => ({ buf: body, buffer: body });
      const own = Buffer.concat([requestHead(3, 8, 7, Buffer.from(clientId)), body]);
      own.writeInt32BE(own.length - 4, 0);
      const request = { apiKey: 3, apiVersion: 8, encode };
      const { buffer } = await createRequest({ correlationId: 7, clientId, request });
      assert.equal(own.toString('hex'), buffer.toString('hex'));
    }
  });
});
