import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { installPacked } from '../../support/packed.ts';
import { endOf } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

/** The lines of docs/frameworks.md, as they stand there, by what their comment names. */
function snippets(): Record<'Hono' | 'ws' | 'loop', string> {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/frameworks.md'), 'utf8');
  const [, block = ''] = /## Without an HTTP request.*?```ts\n(.*?)```/s.exec(page) ?? [];
  const parts = block.split(/\n(?=\/\/ )/).slice(1);
  const of = (start: string): string => {
    const found = parts.find((part) => part.startsWith(start));
    assert.ok(found !== undefined, `docs/frameworks.md has no snippet ${start}`);
    return found;
  };
  return { Hono: of('// Hono on AWS Lambda'), ws: of('// ws:'), loop: of('// A loop') };
}

const main = ({ Hono, ws, loop }: ReturnType<typeof snippets>): string => `
import { runWithContext } from 'svc';
import { once } from 'node:events';
import { Hono } from 'hono';
import { handle as onLambda } from 'hono/aws-lambda';
import { WebSocket, WebSocketServer } from 'ws';
import { record } from './record.mjs';

async function lambda() {
  const app = new Hono();
  ${Hono}
  app.get('/', async (c) => { await record('lambda ' + (c.req.header('x-user') ?? null)); return c.text('ok'); });
  const handler = onLambda(app);
  for (const user of ['alice', undefined, 'bob', undefined]) {
    const headers = user === undefined ? {} : { 'x-user': user };
    const http = { method: 'GET', path: '/', protocol: 'HTTP/1.1', sourceIp: '127.0.0.1', userAgent: '' };
    const requestContext = { http, domainName: 'localhost', stage: '$default' };
    const event = { version: '2.0', routeKey: '$default', rawPath: '/', rawQueryString: '', headers, requestContext, isBase64Encoded: false };
    const { statusCode } = await handler(event, {});
    if (statusCode !== 200) throw new Error('status ' + statusCode);
  }
}

async function sockets() {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  let left = 6;
  const done = Promise.withResolvers();
  server.on('connection', (socket, request) => {
    const user = { id: request.headers['x-user'] ?? null };
    const handle = async (data) => {
      await record('ws ' + data);
      if (--left === 0) done.resolve();
    };
    ${ws}
  });
  const clients = ['alice', 'bob', undefined].map((user) => {
    const client = new WebSocket('ws://127.0.0.1:' + server.address().port, { headers: user === undefined ? {} : { 'x-user': user } });
    client.on('open', () => { client.send(String(user ?? null)); client.send(String(user ?? null)); });
    return client;
  });
  await done.promise;
  for (const client of clients) client.terminate();
  server.close();
}

async function consumer() {
  async function* incoming() { yield { id: '1', userId: 'alice' }; yield { id: '2', userId: null }; yield { id: '3', userId: 'bob' }; yield { id: '4' }; }
  const messages = incoming();
  const handle = (message) => record('loop ' + (message.userId ?? null));
  ${loop}
}

await lambda();
await sockets();
await consumer();
`;

describe("docs/frameworks.md's lines for what has no HTTP request", function () {
  this.timeout(240_000);

  it('name the right user, or nobody, in Hono on AWS Lambda, in ws and in a loop over messages', async () => {
    const app = installPacked('context-adapters', { hono: '4.13.19', ws: '8.23.0' });
    const target = {
      ...{ module: './record.mjs', function: 'record', eventType: 'RECORDED' },
      payload: '{ expected: #expected }',
    };
    const { code, stderr, topics } = await endOf({
      app,
      files: {
        'record.mjs': 'export async function record(expected) { return null; }',
        'main.mjs': main(snippets()),
        'svc.config.json': configOf([target]),
      },
      env: { MANAGEMENT_SERVER_PORT: '-1' },
      timeoutMs: 60_000,
    });
    assert.equal(code, 0, stderr);
    const seen = (topics.events ?? []).map(({ value }) => ({
      expected: value.payload.expected as string,
      user: String(value.metadata.actor?.userId ?? null),
    }));
    assert.equal(seen.length, 14);
    assert.deepEqual(
      seen.filter(({ expected, user }) => expected.split(' ')[1] !== user),
      [],
    );
  });
});
