import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { fakeControls } from './fake-controls.ts';
import { ask } from './http-client.ts';
import { serverHarness } from './server-harness.ts';

const maxOfOneAddress = 32;
const maxConnections = 64;

const token = 'a-token-of-some-length';
const publicServer = { address: '0.0.0.0', token };
const withRights = `GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`;

describe('places of the management server', () => {
  const { start } = serverHarness();
  const sockets: Socket[] = [];
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
  });

  /** A connection that the server has seen, from an address of this machine. */
  async function open(port: number, localAddress: string): Promise<Socket> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    socket.on('error', () => {}).resume();
    sockets.push(socket);
    await once(socket, 'connect');
    return socket;
  }
  const openMany = async (port: number, count: number, localAddress: string): Promise<Socket[]> => {
    const opened: Socket[] = [];
    // One after the other: which of them is the oldest counts.
    for (let index = 0; index < count; index++) opened.push(await open(port, localAddress));
    return opened;
  };
  /** Indexes of the connections that the server has closed, once it has had the time to. */
  const closed = async (of: readonly Socket[]): Promise<number[]> => {
    await pause(100);
    return of.flatMap((socket, index) => (socket.readableEnded || socket.destroyed ? [index] : []));
  };
  const statusOver = async (socket: Socket, request: string): Promise<string> => {
    const answer = once(socket, 'data') as Promise<[Buffer]>;
    socket.write(request);
    return (await answer)[0].toString().slice(9, 12);
  };
  const health = async (port: number): Promise<number> => (await ask(port, '/actuator/health')).status;

  it('64 anonymous connections that ask again and again keep nobody out', async function () {
    this.timeout(20_000);
    const port = await start(publicServer);
    const asking = await openMany(port, maxConnections, '127.0.0.2');
    const timers = asking.map((socket) =>
      setInterval(() => socket.write('GET /x HTTP/1.1\r\nHost: x\r\n\r\n'), 500).unref(),
    );
    for (let round = 0; round < 5; round++) {
      await pause(600);
      assert.equal(await health(port), 200);
      assert.equal(
        (await ask(port, '/metrics', { headers: { authorization: `Bearer ${token}` } })).status,
        200,
      );
    }
    for (const timer of timers) clearInterval(timer);
    assert.equal((await closed(asking)).length, maxConnections);
  });

  for (const [what, options, request, status, stays] of [
    ['401', publicServer, 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n', '401', false],
    [
      'health without a token',
      publicServer,
      'GET /actuator/health HTTP/1.1\r\nHost: x\r\n\r\n',
      '200',
      false,
    ],
    ['421 on loopback', {}, 'GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n', '421', false],
    ['200 with the token', publicServer, withRights, '200', true],
    ['404 with the token', publicServer, withRights.replace('/metrics', '/x'), '404', true],
    ['200 on loopback', {}, 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n', '200', true],
  ] as const) {
    it(`after ${what} the connection ${stays ? 'stays' : 'is closed'}`, async () => {
      const socket = await open(await start(options), '127.0.0.1');
      assert.equal(await statusOver(socket, request), status);
      assert.deepEqual(await closed([socket]), stays ? [] : [0]);
    });
  }

  it('the connection of one address that has been idle longest makes room for the next one of it', async () => {
    const port = await start(publicServer);
    const idle = await openMany(port, maxOfOneAddress, '127.0.0.2');
    assert.deepEqual(await closed(idle), []);
    idle.push(await open(port, '127.0.0.2'));
    assert.deepEqual(await closed(idle), [0]);
    assert.equal(await health(port), 200);
    assert.deepEqual(await closed(idle), [0]);
  });

  it('where all places are taken the one of any address that has been idle longest makes room', async () => {
    const port = await start(publicServer);
    const idle = [
      ...(await openMany(port, maxOfOneAddress, '127.0.0.2')),
      ...(await openMany(port, maxConnections - maxOfOneAddress, '127.0.0.3')),
    ];
    assert.deepEqual(await closed(idle), []);
    assert.equal(await health(port), 200);
    assert.deepEqual(await closed(idle), [0]);
  });

  it("a scraper's connection outlives those that have not shown any rights", async () => {
    const port = await start(publicServer);
    const scraper = await open(port, '127.0.0.2');
    assert.equal(await statusOver(scraper, withRights), '200');
    for (const address of ['127.0.0.2', '127.0.0.3', '127.0.0.4']) await openMany(port, 40, address);
    assert.equal(await statusOver(scraper, withRights), '200');
  });

  it('requests under way are not cut off: the next connection of their address is refused, others get in', async () => {
    let answer = (_text: string): void => {};
    const text = new Promise<string>((resolve) => {
      answer = resolve;
    });
    const port = await start(publicServer, fakeControls({ metricsText: () => text }));
    const busy = await openMany(port, maxOfOneAddress, '127.0.0.2');
    for (const socket of busy) socket.write(withRights);
    assert.deepEqual(await closed(busy), []);
    assert.deepEqual(await closed([await open(port, '127.0.0.2')]), [0]);
    assert.equal(await health(port), 200);
    const answers = busy.map((socket) => once(socket, 'data'));
    answer('');
    assert.equal((await Promise.all(answers)).length, maxOfOneAddress);
  });
});
