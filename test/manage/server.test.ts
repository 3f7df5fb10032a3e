import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { freePorts } from '../../scripts/services/ports.ts';
import { startManagementServer } from '../../src/manage/server.ts';
import { useLogger } from '../support/log.ts';
import { fakeControls } from './fake-controls.ts';
import { ask, sendRaw, statusOf } from './http-client.ts';
import { defaultOptions, serverHarness } from './server-harness.ts';

const token = 'a-token-of-some-length';

describe('management server', () => {
  const { start, stop, lines, logger } = serverHarness();

  it('a port in use is one warning', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    useLogger(logger);
    assert.equal(await startManagementServer({ ...defaultOptions, port }, fakeControls(), true), undefined);
    assert.deepEqual(lines, [
      [
        `management server not started: port ${port} of 127.0.0.1 is in use (management.server.port; 0 takes a free one)`,
        { code: 'SVC_MANAGE_LISTEN_FAILED' },
      ],
    ]);
    other.close();
  });

  it('an address that this machine does not have is one warning that names it', async () => {
    // Of TEST-NET-3, which is nobody's.
    const options = { ...defaultOptions, address: '203.0.113.7', token };
    useLogger(logger);
    assert.equal(await startManagementServer(options, fakeControls(), true), undefined);
    assert.equal(lines.length, 1);
    assert.match(lines[0]?.[0] ?? '', /^management server not started: .*203\.0\.113\.7/);
    assert.deepEqual(lines[0]?.[1], { code: 'SVC_MANAGE_LISTEN_FAILED' });
  });

  describe('near a port that others have', () => {
    const others: Server[] = [];
    afterEach(() => {
      for (const other of others.splice(0)) other.close();
    });

    /** Takes `count` ports one after the other. */
    async function taken(count: number): Promise<number> {
      const [first] = (await freePorts(1)) as [number];
      for (let port = first; port < first + count; port++) {
        const other = createServer().listen(port, '127.0.0.1');
        others.push(other);
        await once(other, 'listening');
      }
      return first;
    }

    it('takes the next free one, the last that is tried among them, and says which', async () => {
      const first = await taken(2);
      assert.equal(await start({ port: first, portTries: 3 }), first + 2);
      assert.deepEqual(
        lines.map(([message]) => message),
        [
          `port ${first} of 127.0.0.1 is in use: the management server takes port ${first + 2} (set management.server.port)`,
        ],
      );
    });

    it('says nothing of it where others like it have the first', async () => {
      const first = await taken(1);
      assert.equal(await start({ port: first, portTries: 2, isOneOfSeveral: true }), first + 1);
      assert.deepEqual(lines, []);
    });

    it('does not start where all of them are taken', async () => {
      const port = await taken(2);
      const options = { ...defaultOptions, port, portTries: 2 };
      useLogger(logger);
      assert.equal(await startManagementServer(options, fakeControls(), true), undefined);
      assert.equal(
        lines[0]?.[0],
        `management server not started: ports ${port} to ${port + 1} of 127.0.0.1 are in use (management.server.port; 0 takes a free one)`,
      );
    });
  });

  for (const wrong of [
    { port: 65_536 },
    { address: '127.0.0.1.x', token, port: 0 },
    { address: '192.0.2.1', token, port: 0 },
  ]) {
    it(`cannot listen on ${JSON.stringify(wrong)}: one warning`, async () => {
      useLogger(logger);
      assert.equal(
        await startManagementServer({ ...defaultOptions, ...wrong }, fakeControls(), true),
        undefined,
      );
      assert.equal(lines.length, 1);
      assert.match(
        lines[0]?.[0] ?? '',
        /^management server not started: cannot listen on port \d+ of \S+ \(\w+\)$/,
      );
    });
  }

  it('worker threads have none', async () => {
    useLogger(logger);
    assert.equal(await startManagementServer(defaultOptions, fakeControls(), false), undefined);
    assert.deepEqual(lines, []);
  });

  it('close ends connections that are kept alive, and frees the port', async () => {
    const port = await start();
    const open = sendRaw(port, 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await ask(port, '/metrics');
    await stop();
    assert.equal(statusOf(await open), 200);
    await start({ port });
  });

  it('processes of a cluster do not share a port, each of them with other counts', async function () {
    this.timeout(20_000);
    assert.deepEqual(await run('./cluster-server.ts'), [0, 'listening: true,false\n']);
  });

  it('never keeps the process alive, not even with a connection open', async function () {
    this.timeout(20_000);
    assert.deepEqual(await run('./idle-server.ts'), [0, 'answered 200, kept alive by []\n']);
  });
});

/** Exit code and output of a script beside this file. */
async function run(script: string): Promise<[number, string]> {
  const file = fileURLToPath(new URL(script, import.meta.url));
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return [code, output];
}
