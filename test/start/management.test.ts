import assert from 'node:assert/strict';
import { chmodSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/read/load.ts';
import { ownStamp } from '../../src/ground/claims.ts';
import { readProcessFiles } from '../../src/ground/files.ts';
import { joinMainThread } from '../../src/observe/thread-counts.ts';
import { type Managed, startManagement } from '../../src/start/management.ts';
import { ask } from '../manage/http-client.ts';
import { metricSources } from '../observe/metric-sources.ts';
import { temporaryFolder } from '../support/folders.ts';
import { logInto, useLogger } from '../support/log.ts';

describe('the process file of a management server', () => {
  const { TMPDIR } = process.env;
  let folder: string;
  const lines: string[] = [];
  const logger = logInto(lines, false);
  const managed = {
    sources: metricSources(),
    info: { service: { name: 'orders', version: '1.4.0' }, svc: { version: '0.1.0' } },
    keys: () => [],
    breakers: {},
  } as unknown as Managed;
  const start = () => {
    const code = { svc: { broker: { topic: 't' } }, management: { server: { port: 0 } } };
    useLogger(logger);
    return startManagement(loadConfig({ env: {}, code }).config, managed);
  };

  beforeEach(() => {
    folder = temporaryFolder('management');
    process.env.TMPDIR = folder;
    lines.length = 0;
  });
  afterEach(() => {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  });

  it('names its port while it listens', async () => {
    const server = await start();
    assert.ok(server);
    const { pid } = process;
    const [port, address, name, version] = [server.port, '127.0.0.1', 'orders', '0.1.0'];
    assert.deepEqual(readProcessFiles(), [
      { pid, port, address, tls: false, name, version, stamp: ownStamp(), cwd: process.cwd() },
    ]);
    await server.close();
    assert.deepEqual(readProcessFiles(), []);
  });

  it('is a line in the log where its folder is not safe, and the server runs', async () => {
    await (await start())?.close();
    const [ofUser = assert.fail()] = readdirSync(folder);
    chmodSync(join(folder, ofUser), 0o777);
    const server = await start();
    assert.ok(server);
    assert.match(
      lines.join('\n'),
      /svc status cannot find this process: ".*" cannot be used: others can use it/,
    );
    await server.close();
  });
});

describe('keys that are invalidated over HTTP', () => {
  it('are so in each thread, with who did it in the log, and the answer says how they are now', async () => {
    const token = 'a-token-of-some-length';
    const lines: string[] = [];
    const logger = logInto(lines, false);
    let own = 0;
    let hearing = (): void => {};
    const heard = new Promise<void>((resolve) => {
      const resetBreakers = (): void => assert.fail('of breakers');
      hearing = joinMainThread(metricSources(), { invalidateKeys: resolve, resetBreakers });
    });
    const keys = [{ provider: 'aws-kms', keyId: 'customer', status: 'UP' }];
    const managed = {
      ...{
        sources: metricSources(),
        info: { service: { name: null, version: null }, svc: { version: '0' } },
      },
      ...{ keys: () => keys, invalidateKeys: async () => void own++, breakers: {} },
    } as unknown as Managed;
    const code = { svc: { broker: { topic: 't' } }, management: { server: { port: 0, token } } };
    useLogger(logger);
    const server = await startManagement(loadConfig({ env: {}, code }).config, managed);
    assert.ok(server);
    try {
      const { status, body } = await ask(server.port, '/actuator/svc/keys/invalidate', {
        ...{ method: 'POST', headers: { authorization: `Bearer ${token}` } },
      });
      assert.deepEqual([status, JSON.parse(body), own], [200, { keys }, 1]);
      await heard;
      assert.match(
        lines.join('\n'),
        /Encryption keys are invalidated by 127\.0\.0\.1 with management\.server\.token/,
      );
    } finally {
      hearing();
      await server.close();
    }
  });
});

describe('the console of a management server', () => {
  const managed = {
    ...{ sources: metricSources(), keys: () => [], breakers: {}, broker: { describe: async () => ({}) } },
    info: { service: { name: 'orders', version: '1.4.0' }, svc: { version: '0.1.0' } },
  } as unknown as Managed;
  const statusOf = async (server: object, exposure?: readonly string[]): Promise<number> => {
    const endpoints = exposure && { web: { exposure: { include: exposure } } };
    const code = {
      svc: { broker: { topic: 't' } },
      management: { server: { port: 0, ...server }, endpoints },
    };
    const started = await startManagement(loadConfig({ env: {}, code }).config, managed);
    assert.ok(started);
    const { status } = await ask(started.port, '/actuator/svc');
    await started.close();
    return status;
  };
  const elsewhere = { address: '0.0.0.0', token: 'a-token-of-some-length' };

  it('is on by default on loopback alone', async () => {
    assert.equal(await statusOf({}), 200);
    assert.equal(await statusOf(elsewhere), 401);
  });

  it('is on where it is asked for, and off where it is left out', async () => {
    assert.equal(await statusOf(elsewhere, ['svc-console']), 200);
    assert.equal(await statusOf(elsewhere, ['*']), 200);
    assert.equal(await statusOf({}, ['health']), 404);
  });
});
