import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { fakeControls } from './fake-controls.ts';
import { ask, sendRaw } from './http-client.ts';
import { serverHarness } from './server-harness.ts';

const maxUnsentBytes = 32 * 1024 * 1024;
const maxWaiting = 8;

const request = (path: string, close = false): string =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${close ? 'Connection: close\r\n' : ''}\r\n`;
const statuses = (raw: string): string[] => raw.match(/(?<=HTTP\/1\.1 )\d{3}/g) ?? [];
const token = 'a-token-of-some-length';

/** What any user of the machine can do who may connect and has no token: docs/security.md lists them. */
describe('attacks on the management server', () => {
  const { start } = serverHarness();
  const sockets: Socket[] = [];
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
  });

  /** Reads nothing. */
  async function open(port: number): Promise<Socket> {
    const socket = connect(port, '127.0.0.1');
    sockets.push(socket);
    socket.on('error', () => {}).pause();
    await once(socket, 'connect');
    return socket;
  }

  /** Bytes until its end. */
  async function heardBy(socket: Socket): Promise<number> {
    let bytes = 0;
    socket.on('data', (part) => {
      bytes += part.length;
    });
    socket.resume();
    await once(socket, 'close');
    return bytes;
  }

  it('pipelined requests are answered one after the other, and begun so', async () => {
    let atOnce = 0;
    let max = 0;
    const metricsText = async (): Promise<string> => {
      max = Math.max(max, ++atOnce);
      await pause(5);
      atOnce--;
      return 'x 1\n';
    };
    const port = await start({}, fakeControls({ metricsText }));
    const raw = await sendRaw(port, request('/metrics').repeat(maxWaiting) + request('/metrics', true));
    assert.deepEqual(statuses(raw), Array(maxWaiting + 1).fill('200'));
    assert.equal(max, 1);
  });

  it('a connection with more requests than that is closed, and nothing of it goes on', async () => {
    let asked = 0;
    const text = new Promise<string>(() => {});
    const metricsText = (): Promise<string> => {
      asked++;
      return text;
    };
    const port = await start({}, fakeControls({ metricsText }));
    assert.equal(await sendRaw(port, request('/metrics').repeat(1_000)), '');
    assert.equal(asked, 1);
    assert.equal((await ask(port, '/actuator/info')).status, 200);
  });

  it('requests of many connections at once render the metrics once', async () => {
    let rendered = 0;
    const metricsText = async (): Promise<string> => {
      rendered++;
      await pause(200);
      return 'x 1\n';
    };
    const port = await start({}, fakeControls({ metricsText }));
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(port, '/metrics')));
    assert.deepEqual(new Set(answers.map(({ body }) => body)), new Set(['x 1\n']));
    assert.equal(rendered, 1);
    await ask(port, '/metrics');
    assert.equal(rendered, 2);
  });

  it('a connection that does not read its answer is closed, one that reads slowly gets all of it', async function () {
    this.timeout(30_000);
    const length = 16 * 1024 * 1024;
    const port = await start({}, fakeControls({ metricsText: async () => 'x'.repeat(length) }));
    const [deaf, slow] = [await open(port), await open(port)];
    for (const socket of [deaf, slow]) socket.write(request('/metrics', true));
    // Two megabytes and a half a second.
    slow.on('data', () => {
      slow.pause();
      setTimeout(() => slow.resume(), 25);
    });
    assert.ok((await heardBy(slow)) > length);
    assert.ok((await heardBy(deaf)) < length);
  });

  it('answers that nobody reads take no more than their bound: the oldest are closed', async () => {
    const length = maxUnsentBytes / 2;
    const port = await start({}, fakeControls({ metricsText: async () => 'x'.repeat(length) }));
    const deaf: Socket[] = [];
    for (let index = 0; index < 6; index++) {
      const socket = await open(port);
      deaf.push(socket);
      socket.write(request('/metrics', true));
      await pause(150);
    }
    const [oldest, newest] = [deaf[0] as Socket, deaf.at(-1) as Socket];
    assert.ok((await heardBy(oldest)) < length);
    assert.ok((await heardBy(newest)) > length);
  });

  for (const path of ['/metrics', '/actuator/svc/console.json', '/actuator/svc/dlq', '/actuator/svc-metrics'])
    it(`behind a proxy ${path} needs the token`, async () => {
      const port = await start({ token, publicUrl: 'https://ops.example.com' });
      const headers = { host: 'ops.example.com', 'x-forwarded-for': '203.0.113.9' };
      assert.equal((await ask(port, path, { headers })).status, 401);
      const authorization = `Bearer ${token}`;
      assert.equal((await ask(port, path, { headers: { ...headers, authorization } })).status, 200);
    });
});
