import assert from 'node:assert/strict';
import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel';
import {
  type ClientHttp2Session,
  connect,
  createSecureServer,
  createServer,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type ContextStore, currentStore } from '../../../src/context/context-store.ts';
import { createOriginReader } from '../../../src/context/origin.ts';
import { installRequestContext } from '../../../src/context/request.ts';
import { listen } from '../requests.ts';

const options = {
  correlationResponseHeader: 'x-correlation-id',
  generateCorrelationId: true,
  userId: 'request:user.id',
};
const readOrigin = createOriginReader(options);
const id = () => readOrigin().correlationId;

function send(client: ClientHttp2Session, headers: Record<string, string>, body?: string) {
  return new Promise<{ headers: IncomingHttpHeaders; body: string }>((resolve, reject) => {
    const stream = client.request({
      ':method': body === undefined ? 'GET' : 'POST',
      ':path': '/',
      ...headers,
    });
    let received: IncomingHttpHeaders = {};
    let text = '';
    stream.on('response', (responseHeaders) => {
      received = responseHeaders;
    });
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    stream.on('end', () => resolve({ headers: received, body: text })).on('error', reject);
    stream.end(body);
  });
}

async function withHttp2<T>(
  server: Http2Server,
  use: (client: ClientHttp2Session) => Promise<T>,
): Promise<T> {
  const client = connect(`http://127.0.0.1:${await listen(server)}`);
  try {
    return await use(client);
  } finally {
    await new Promise<void>((resolve) => client.close(resolve));
    await new Promise<void>((resolve) => server.close(() => resolve()));
  }
}

describe('request context, HTTP/2', () => {
  let uninstall = () => {};
  beforeEach(() => {
    uninstall = installRequestContext(options);
  });
  afterEach(() => uninstall());

  it('is right for 50 streams at once on one connection (streams)', async () => {
    const server = createServer();
    server.on('stream', async (stream: ServerHttp2Stream) => {
      const before = id();
      await wait(Math.random() * 5);
      stream.respond({ ':status': 200 });
      stream.end(`${before} ${id()} ${readOrigin().clientIp}`);
    });
    const answers = await withHttp2(server, (client) =>
      Promise.all(Array.from({ length: 50 }, (_, n) => send(client, { 'x-request-id': `s${n}` }))),
    );
    answers.forEach(({ headers, body }, n) => {
      assert.equal(body, `s${n} s${n} 127.0.0.1`);
      assert.equal(headers['x-correlation-id'], `s${n}`);
    });
  });

  it('is there in the listeners of request and response (compatibility API)', async () => {
    const seen: string[] = [];
    const server = createServer((request: Http2ServerRequest, response: Http2ServerResponse) => {
      const note = (where: string) => () => seen.push(`${where} ${readOrigin().userId}`);
      (request as unknown as { user: object }).user = { id: request.headers['x-request-id'] };
      request.on('data', note('data')).on('end', note('end'));
      request.on('end', () => setTimeout(() => response.end(String(id())), 2));
      response.on('finish', note('finish')).on('close', note('close'));
    });
    const [one, two] = await withHttp2(server, (client) =>
      Promise.all([
        send(client, { 'x-request-id': 'a' }, 'body'),
        send(client, { 'x-request-id': 'b' }, 'body'),
      ]),
    );
    assert.deepEqual([one?.body, one?.headers['x-correlation-id']], ['a', 'a']);
    assert.deepEqual([two?.body, two?.headers['x-correlation-id']], ['b', 'b']);
    const of = (user: string) => ['close', 'data', 'end', 'finish'].map((where) => `${where} ${user}`);
    assert.deepEqual(seen.sort(), [...of('a'), ...of('b')].sort());
  });

  it('makes an id where none came, and leaves a header of the application alone', async () => {
    const server = createServer((request, response) => {
      if (request.headers['x-mine'] !== undefined) response.setHeader('X-Correlation-Id', 'mine');
      response.setHeader('x-other', '1');
      response.end(String(id()));
    });
    await withHttp2(server, async (client) => {
      const made = await send(client, {});
      assert.match(made.body, /^[0-9a-f-]{36}$/);
      assert.equal(made.headers['x-correlation-id'], made.body);
      assert.equal(made.headers['x-other'], '1');
      assert.equal((await send(client, { 'x-mine': '1' })).headers['x-correlation-id'], 'mine');
    });
  });

  it('adds the response header to files and to responses without any header', async () => {
    const file = fileURLToPath(import.meta.url);
    const server = createServer();
    server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      if (headers['x-file'] !== undefined) return stream.respondWithFile(file);
      stream.respond();
      stream.end();
    });
    await withHttp2(server, async (client) => {
      const fromFile = await send(client, { 'x-request-id': 'f', 'x-file': '1' });
      assert.equal(fromFile.headers['x-correlation-id'], 'f');
      assert.ok(fromFile.body.includes('respondWithFile'));
      assert.equal((await send(client, { 'x-request-id': 'n' })).headers['x-correlation-id'], 'n');
    });
  });

  it('leaks nothing into other work of the process', async () => {
    const seen: unknown[] = [];
    const server = createServer((_request, response) => {
      response.end('x');
    });
    const timer = setInterval(() => seen.push(currentStore()), 1);
    await withHttp2(server, async (client) => {
      await send(client, { 'x-request-id': 'a' });
      await wait(5);
    });
    clearInterval(timer);
    assert.ok(seen.length > 0);
    assert.deepEqual(new Set(seen), new Set([undefined]));
  });
});

describe('request context, HTTP/2 without the channel of newer Nodes', () => {
  const streamStart = 'http2.server.stream.start';
  const undo: (() => void)[] = [];
  afterEach(() => {
    for (const restore of undo.splice(0)) restore();
  });

  function replace(target: object, name: string, value: unknown): void {
    const before = Object.getOwnPropertyDescriptor(target, name);
    Object.defineProperty(target, name, { value, configurable: true });
    undo.unshift(() => {
      if (before === undefined) Reflect.deleteProperty(target, name);
      else Object.defineProperty(target, name, before);
    });
  }

  /** As a start of svc on this version of Node. */
  function installOn(version: string): () => void {
    replace(process.versions, 'node', version);
    const uninstall = installRequestContext(options);
    undo.unshift(uninstall);
    return uninstall;
  }

  it('watches servers up to the last version that was not seen to publish it', () => {
    const watched = (version: string, server: object): boolean => {
      const uninstall = installOn(version);
      channel('net.server.socket').publish({ socket: { server } });
      uninstall();
      return Object.hasOwn(server, 'emit');
    };
    for (const create of [() => createServer(), () => createSecureServer()]) {
      for (const version of ['22.15.0', '22.22.9', '23.11.0', '24.0.0', '24.20.9']) {
        assert.equal(watched(version, create()), true, version);
      }
      for (const version of ['22.23.0', '24.21.0', '25.0.0', '26.10.0']) {
        assert.equal(watched(version, create()), false, version);
      }
    }
  });

  it('runs each stream in its store, until it is ended', async () => {
    // Node asks this before it publishes.
    replace(channel(streamStart), 'hasSubscribers', false);
    const uninstall = installOn('22.15.0');
    const server = createServer(async (_request, response) => {
      const before = id();
      await wait(1);
      response.end(`${before} ${id()}`);
    });
    const ids = ['a', 'b', 'c'];
    await withHttp2(server, async (client) => {
      const answers = await Promise.all(ids.map((name) => send(client, { 'x-request-id': name })));
      assert.deepEqual(
        answers.map(({ body }) => body),
        ['a a', 'b b', 'c c'],
      );
      assert.ok(!Object.keys(server).includes('emit'));
      uninstall();
      assert.equal((await send(client, { 'x-request-id': 'd' })).body, 'null null');
    });
  });

  it('gives a stream one store where the channel is there too', async () => {
    installOn('22.15.0');
    let entered: ContextStore | undefined;
    const published: (ContextStore | undefined)[] = [];
    const onStart = () => void published.push(currentStore());
    subscribe(streamStart, onStart);
    undo.unshift(() => unsubscribe(streamStart, onStart));
    const server = createServer((_request, response) => {
      entered = currentStore();
      response.end(String(id()));
    });
    const answer = await withHttp2(server, (client) => send(client, { 'x-request-id': 'a' }));
    assert.equal(answer.body, 'a');
    for (const store of published) assert.equal(entered, store);
  });
});
