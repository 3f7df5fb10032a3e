import assert from 'node:assert/strict';
import { createServer, request as httpRequest } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { connect, createServer as createNetServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { createOriginReader } from '../../../src/context/origin.ts';
import { installRequestContext } from '../../../src/context/request.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { close, listen } from '../requests.ts';

const readOrigin = createOriginReader({ useForwardedHeaders: true, trustedProxies: ['unix'] });
const forwarded = { 'x-forwarded-for': '198.51.100.7' };

describe('the address of a client, with trusted-proxies: [unix]', () => {
  const seen: (string | null)[] = [];
  const note = (_request: unknown, response: { end(text: string): unknown }) => {
    seen.push(readOrigin().clientIp);
    response.end('ok');
  };
  let uninstall = () => {};
  const servers: Server[] = [];
  beforeEach(() => {
    seen.length = 0;
    uninstall = installRequestContext();
  });
  afterEach(async () => {
    await Promise.all(servers.splice(0).map(close));
    uninstall();
  });

  const path = () => join(temporaryFolder('peer'), 's');
  async function listenOn(server: Server, at: string | undefined): Promise<string | number> {
    servers.push(server);
    if (at === undefined) return listen(server);
    await new Promise<void>((resolve) => server.listen(at, resolve));
    return at;
  }
  const get = (at: string | number) =>
    new Promise<void>((resolve, reject) => {
      const place = typeof at === 'string' ? { socketPath: at } : { port: at, host: '127.0.0.1' };
      httpRequest({ ...place, headers: forwarded }, (response) => response.resume().on('end', resolve))
        .on('error', reject)
        .end();
    });

  it('is what the proxy says, on a path, and the address of the socket on a port', async () => {
    await get(await listenOn(createServer(note), path()));
    await get(await listenOn(createServer(note), undefined));
    assert.deepEqual(seen, ['198.51.100.7', '127.0.0.1']);
  });

  it('goes by the server that has accepted the socket, where another one is handed it', async () => {
    const inner = createServer(note);
    const outer = () => createNetServer((socket) => void inner.emit('connection', socket));
    await get(await listenOn(outer(), path()));
    await get(await listenOn(outer(), undefined));
    assert.deepEqual(seen, ['198.51.100.7', '127.0.0.1']);
  });

  it('is the same on HTTP/2', async () => {
    for (const at of [path(), undefined]) {
      const place = await listenOn(createHttp2Server(note) as unknown as Server, at);
      const options = typeof place === 'string' ? { createConnection: () => connect(place) } : {};
      const session = connectHttp2(`http://127.0.0.1:${typeof place === 'string' ? 1 : place}`, options);
      await new Promise((resolve) => session.request(forwarded).resume().on('end', resolve));
      session.close();
    }
    assert.deepEqual(seen, ['198.51.100.7', '127.0.0.1']);
  });

  it('is not what a client says that resets its connection', async () => {
    const at = (await listenOn(createServer(note), undefined)) as number;
    const lines = Object.entries(forwarded).map(([name, value]) => `${name}: ${value}\r\n`);
    await new Promise<void>((resolve) => {
      const socket: Socket = connect(at, '127.0.0.1', () => {
        setTimeout(() => {
          socket.write(`GET / HTTP/1.1\r\nhost: a\r\n${lines.join('')}\r\n`, () => {
            socket.resetAndDestroy();
            const until = Date.now() + 50;
            while (Date.now() < until);
            setTimeout(resolve, 50);
          });
        }, 20);
      });
      socket.on('error', () => {});
    });
    assert.deepEqual(
      seen.filter((address) => address !== '127.0.0.1'),
      [],
    );
  });
});
