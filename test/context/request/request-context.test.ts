import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Agent, createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { inspect } from 'node:util';
import fastify from 'fastify';
import { currentStore } from '../../../src/context/context-store.ts';
import { createOriginReader } from '../../../src/context/origin.ts';
import { installRequestContext, runWithContext, setContext } from '../../../src/context/request.ts';
import { close, listen, send, sendRaw, withServer } from '../requests.ts';

const readOrigin = createOriginReader();
const id = () => readOrigin().correlationId;

describe('request context, HTTP/1', () => {
  let uninstall = () => {};
  beforeEach(() => {
    uninstall = installRequestContext();
  });
  afterEach(() => uninstall());

  async function echo(_request: IncomingMessage, response: ServerResponse): Promise<void> {
    const before = id();
    await wait(Math.random() * 5);
    response.end(`${before} ${id()}`);
  }

  it('is right for 100 requests at once, over kept and new connections', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 5 });
    const bodies = await withServer(echo, (port) =>
      Promise.all(
        Array.from({ length: 100 }, async (_, n) => {
          const headers: Record<string, string> = n % 10 === 0 ? {} : { 'x-correlation-id': `c${n}` };
          return (await send(port, headers, n % 2 === 0 ? { agent } : {})).body;
        }),
      ),
    );
    agent.destroy();
    bodies.forEach((body, n) => {
      assert.equal(body, n % 10 === 0 ? 'null null' : `c${n} c${n}`);
    });
  });

  it('leaves nothing of a request to the next one on its connection', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ports = new Set<number | undefined>();
    const listener = (request: IncomingMessage, response: ServerResponse) => {
      ports.add(request.socket.remotePort);
      if (request.headers['x-user'] !== undefined) setContext({ userId: 'u', tags: { a: 1 } });
      response.end(JSON.stringify(readOrigin()));
    };
    const [first, second] = await withServer(listener, async (port) => [
      await send(port, { 'x-correlation-id': 'one', 'x-user': '1' }, { agent }),
      await send(port, {}, { agent }),
    ]);
    agent.destroy();
    assert.equal(ports.size, 1);
    const origin = {
      userId: 'u',
      sessionId: null,
      correlationId: 'one',
      clientIp: '127.0.0.1',
      tags: { a: '1' },
    };
    assert.deepEqual(JSON.parse(first?.body ?? ''), origin);
    assert.deepEqual(JSON.parse(second?.body ?? ''), {
      ...origin,
      userId: null,
      correlationId: null,
      tags: null,
    });
  });

  it('is right for pipelined requests', async () => {
    const listener = async (_request: IncomingMessage, response: ServerResponse) => {
      const before = id();
      // The first answers last, so that all three are open at once.
      await wait(before === 'p1' ? 20 : 1);
      response.write(`<${before} ${id()}>`);
      response.end();
    };
    const text = ['p1', 'p2', 'p3']
      .map((name) => `GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${name}\r\n\r\n`)
      .join('');
    const received = await withServer(listener, (port) => sendRaw(port, text, 3));
    assert.deepEqual(received.match(/<.*?>/g), ['<p1 p1>', '<p2 p2>', '<p3 p3>']);
  });

  it('is there in every listener of the request and the response, while a body streams in', async () => {
    const seen: string[] = [];
    const note = (where: string) => () => seen.push(`${where} ${id()}`);
    const done = Promise.withResolvers<void>();
    const listener = (request: IncomingMessage, response: ServerResponse) => {
      request.once('data', note('data')).on('end', note('end')).on('close', note('request close'));
      request.on('end', () => setTimeout(() => response.end('x'), 2));
      response
        .on('finish', note('finish'))
        .on('close', note('close'))
        .on('close', () => done.resolve());
    };
    await withServer(listener, async (port) => {
      const socket = connect(port, '127.0.0.1');
      socket.write('POST / HTTP/1.1\r\nHost: a\r\nX-Request-Id: r\r\nContent-Length: 4\r\n\r\nab');
      await wait(20);
      socket.write('cd');
      await done.promise;
      socket.destroy();
    });
    assert.deepEqual(seen.sort(), ['close r', 'data r', 'end r', 'finish r', 'request close r']);
  });

  it('is there in `for await` over the body', async () => {
    const listener = async (request: IncomingMessage, response: ServerResponse) => {
      let seen = '';
      for await (const chunk of request) seen += `${chunk.length}${id()} `;
      response.end(seen + id());
    };
    const { body } = await withServer(listener, (port) =>
      send(port, { 'x-request-id': 'r' }, { body: 'abcd' }),
    );
    assert.equal(body, '4r r');
  });

  it('knows the client of a connection that is already gone', async () => {
    const seen = Promise.withResolvers<unknown>();
    const listener = (_request: IncomingMessage, response: ServerResponse) => {
      response.on('close', () => setTimeout(() => seen.resolve(readOrigin()), 5));
    };
    const origin = await withServer(listener, async (port) => {
      const socket = connect(port, '127.0.0.1');
      socket.write('GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: gone\r\n\r\n');
      await wait(20);
      socket.destroy();
      return seen.promise;
    });
    assert.deepEqual(origin, {
      userId: null,
      sessionId: null,
      correlationId: 'gone',
      clientIp: '127.0.0.1',
      tags: null,
    });
  });

  it('leaks nothing into the connection, other work of the process, or the time after', async () => {
    const seen = new Map<string, Set<unknown>>();
    const note = (where: string) => () => {
      seen.set(where, (seen.get(where) ?? new Set()).add(currentStore()));
    };
    const timer = setInterval(note('timer'), 1);
    const closed = Promise.withResolvers<void>();
    const server = createServer(async (_request, response) => {
      await wait(10);
      response.end();
    });
    server.on('connection', (socket) => {
      socket
        .on('data', note('data'))
        .on('close', note('close'))
        .on('close', () => closed.resolve());
    });
    await send(await listen(server), { 'x-correlation-id': 'a' });
    await close(server);
    await closed.promise;
    clearInterval(timer);
    const none = new Set([undefined]);
    assert.deepEqual(Object.fromEntries(seen), { timer: none, data: none, close: none });
    assert.equal(currentStore(), undefined);
  });

  it('leaves a nested context alone where the response is written inside of it', async () => {
    const seen: unknown[] = [];
    const listener = (_request: IncomingMessage, response: ServerResponse) => {
      response.on('mine', () => seen.push(readOrigin().userId));
      runWithContext({ userId: 'inner' }, () => response.emit('mine'));
      response.emit('mine');
      response.end();
    };
    await withServer(listener, (port) => send(port));
    assert.deepEqual(seen, ['inner', null]);
  });

  it('does not change what others carry through the same listeners', async () => {
    const other = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const server = createServer((request, response) => {
      const note = () => seen.push(`${other.getStore()} ${id()}`);
      request.on('data', note);
      request.on('end', note).on('end', () => response.end());
      other.run('inner', () => request.emit('mine'));
      request.on('mine', note);
      other.run('inner', () => request.emit('mine'));
      note();
    });
    // As instrumentation-http does it.
    const { emit } = server;
    server.emit = function (this: unknown, ...args: unknown[]) {
      return args[0] === 'request'
        ? other.run('outer', () => emit.apply(server, args as Parameters<typeof emit>))
        : emit.apply(server, args as Parameters<typeof emit>);
    } as typeof server.emit;
    const port = await listen(server);
    await send(port, { 'x-request-id': 'r' }, { body: 'abcd' });
    await close(server);
    assert.deepEqual(seen.slice(0, 2), ['inner r', 'outer r']);
    assert.equal(seen.length, 4);
    // `data` and `end` come with whatever context Node gives them: the same as without svc.
    for (const text of seen.slice(2)) assert.match(String(text), /^(outer|undefined) r$/);
  });

  it('does not show on the request', async () => {
    let keys: string[] = [];
    const listener = (request: IncomingMessage, response: ServerResponse) => {
      keys = Object.keys(request);
      assert.ok(!inspect(request, { depth: 0 }).includes('emitInStore'));
      response.end();
    };
    await withServer(listener, (port) => send(port));
    assert.ok(keys.length > 0 && !keys.includes('emit'));
  });

  it('works under a framework, with what its authentication hook adds', async () => {
    const app = fastify();
    app.addHook('onRequest', async (request) => {
      await wait(1);
      setContext({ userId: String(request.headers['x-user']) });
    });
    app.post('/', async () => {
      await wait(1);
      return readOrigin();
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = app.server.address() as AddressInfo;
    const answers = await Promise.all(
      ['a', 'b', 'c'].map((user) =>
        send(
          port,
          { 'x-user': user, 'x-request-id': user, 'content-type': 'application/json' },
          { body: '{}' },
        ),
      ),
    );
    await app.close();
    const found = answers.map(({ body }) => JSON.parse(body));
    assert.deepEqual(
      found.map(({ userId, correlationId }) => userId + correlationId),
      ['aa', 'bb', 'cc'],
    );
  });

  it('ends with its uninstallation', async () => {
    uninstall();
    const { body } = await withServer(echo, (port) => send(port, { 'x-request-id': 'r' }));
    assert.equal(body, 'null null');
  });
});

describe('request context, correlation id in the response', () => {
  const options = { correlationResponseHeader: 'X-Correlation-Id', generateCorrelationId: true };
  const read = createOriginReader(options);
  let uninstall = () => {};
  beforeEach(() => {
    uninstall = installRequestContext(options);
  });
  afterEach(() => uninstall());

  const listener = (request: IncomingMessage, response: ServerResponse) => {
    if (request.url === '/') response.writeHead(200, { 'x-other': '1' });
    response.end(`${read().correlationId} ${read().correlationId}`);
  };

  it('is the one that came, else one made for the request, the same as in its events', async () => {
    await withServer(listener, async (port) => {
      const given = await send(port, { 'x-request-id': 'mine' });
      assert.deepEqual([given.headers['x-correlation-id'], given.body], ['mine', 'mine mine']);
      const made = await send(port);
      const uuid = made.headers['x-correlation-id'] as string;
      assert.match(uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      assert.equal(made.body, `${uuid} ${uuid}`);
      assert.equal(made.headers['x-other'], '1');
    });
  });

  it('is not made of what a client must not put there', async () => {
    const answer = await withServer(listener, (port) => send(port, { 'x-request-id': 'x'.repeat(257) }));
    assert.equal((answer.headers['x-correlation-id'] as string).length, 36);
  });

  it('refuses a response header that cannot exist, at the installation', () => {
    assert.throws(() => installRequestContext({ correlationResponseHeader: 'a b' }), {
      code: 'SVC_CONTEXT_BAD_HEADER_NAME',
    });
  });
});
