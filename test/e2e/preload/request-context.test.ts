import assert from 'node:assert/strict';
import { connect } from 'node:http2';
import { plainApp } from '../support/apps.ts';
import { type AppEnd, type RunningApp, startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

const target = { module: './orders.mjs', function: 'OrderService.prototype.create', eventType: 'ORDERED' };

/** The source knows nothing of svc; only `authenticate` uses its context, in the case that says so. */
const orders = `
  export class OrderService {
    async create(id) { await new Promise((resolve) => setTimeout(resolve, 5)); return { id }; }
  }`;

const http1App = `
  import { createServer } from 'node:http';
  import { OrderService } from './orders.mjs';
  const service = new OrderService();
  const server = createServer((request, response) => {
    const body = [];
    // Listeners of the request run inside its context too.
    request.on('data', (chunk) => body.push(chunk)).on('end', async () => {
      await service.create(Buffer.concat(body).toString());
      response.end('ok');
    });
  });
  server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));`;

const http2App = `
  import { createServer } from 'node:http2';
  import { setContext } from 'svc';
  import { OrderService } from './orders.mjs';
  const service = new OrderService();
  const authenticate = async (request) => {
    await null;
    request.user = { id: request.headers['x-token'] };
    setContext({ correlationId: 'set-' + request.user.id, tags: { tenant: 't-' + request.user.id } });
  };
  const server = createServer(async (request, response) => {
    await authenticate(request);
    await service.create(request.url.slice(1));
    response.end('ok');
  });
  server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));`;

describe('request context', function () {
  this.timeout(180_000);
  let app: string;

  before('npm install', () => {
    app = plainApp();
  });

  const start = async (main: string, config: Record<string, unknown>): Promise<[RunningApp, number]> => {
    const running = await startApp({
      app,
      files: { 'svc.config.json': configOf([target], config), 'orders.mjs': orders, 'main.mjs': main },
    });
    const [, port] = await running.waitFor(/port (\d+)/);
    return [running, Number(port)];
  };

  it('HTTP/1: correlation id, client address, actor and tags of each request, and none of another', async () => {
    const [running, port] = await start(http1App, {
      security: { 'use-forwarded-headers': true, 'trusted-proxies': ['127.0.0.1', '10.0.0.0/8'] },
      context: {
        'correlation-id': { generate: true, 'response-header': 'x-correlation-id' },
        actor: { 'user-id': 'header:x-user-id', 'session-id': 'baggage:session.id' },
        tags: { baggage: ['tenant'] },
      },
    });
    const traceId = '0af7651916cd43dd8448eb211c80319c';
    const send = (body: string, headers: Record<string, string> = {}): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}/orders`, { method: 'POST', body, headers });
    const [given, made, spoofed] = await Promise.all([
      send('given', {
        'x-correlation-id': 'corr-1',
        'x-user-id': 'ann',
        baggage: 'session.id=s-1,tenant=acme,other=x',
        traceparent: `00-${traceId}-b7ad6b7169203331-01`,
      }),
      send('made', { 'x-forwarded-for': '203.0.113.9, 10.1.2.3' }),
      send('spoofed', { 'x-request-id': 'req-3', 'x-forwarded-for': '198.51.100.1, 203.0.113.7' }),
    ]);
    const end = await running.kill('SIGTERM');

    const of = metadataOf(end);
    assert.equal(given.headers.get('x-correlation-id'), 'corr-1');
    assert.deepEqual(of('given'), {
      ...{ correlationId: 'corr-1', clientIp: '127.0.0.1', tags: { tenant: 'acme' } },
      ...{ actor: { userId: 'ann', sessionId: 's-1' }, traceId, parentSpanId: 'b7ad6b7169203331' },
    });
    const id = made.headers.get('x-correlation-id');
    assert.match(id ?? '', /^[\w-]{16,}$/);
    assert.deepEqual(
      { ...of('made'), traceId: '' },
      {
        ...{ correlationId: id, clientIp: '203.0.113.9', tags: {} },
        ...{ actor: { userId: null, sessionId: null }, traceId: '', parentSpanId: null },
      },
    );
    assert.equal(spoofed.headers.get('x-correlation-id'), 'req-3');
    assert.equal(of('spoofed').clientIp, '203.0.113.7');
    assert.notEqual(of('spoofed').traceId, of('made').traceId);
  });

  it('HTTP/2: setContext, and a property that the application puts on its request', async () => {
    const [running, port] = await start(http2App, {
      context: { actor: { 'user-id': 'request:user.id', 'session-id': 'header:x-session' } },
    });
    const session = connect(`http://127.0.0.1:${port}`);
    const get = (id: string): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const stream = session.request({ ':path': `/${id}`, 'x-token': id, 'x-session': `session-${id}` });
        stream.on('error', reject).on('end', resolve).resume();
        stream.end();
      });
    await Promise.all([get('a'), get('b')]);
    session.close();
    const end = await running.kill('SIGTERM');
    const of = metadataOf(end);
    for (const id of ['a', 'b']) {
      const { traceId, ...rest } = of(id);
      assert.match(traceId, /^[0-9a-f]{32}$/);
      assert.deepEqual(rest, {
        ...{ correlationId: `set-${id}`, clientIp: '127.0.0.1', tags: { tenant: `t-${id}` } },
        ...{ actor: { userId: id, sessionId: `session-${id}` }, parentSpanId: null },
      });
    }
    assert.notEqual(of('a').traceId, of('b').traceId);
  });
});

/** The context of the event whose payload has this id. */
// biome-ignore lint/suspicious/noExplicitAny: compared as a whole.
function metadataOf({ topics, stderr }: AppEnd): (id: string) => any {
  return (id) => {
    const record = topics.events?.find(({ value }) => value.payload.id === id);
    assert.ok(record, stderr);
    const { correlationId, clientIp, tags, actor, trace } = record.value.metadata;
    return { correlationId, clientIp, tags, actor, traceId: trace.traceId, parentSpanId: trace.parentSpanId };
  };
}
