import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/read/load.ts';
import { processFolder, readProcessFiles } from '../../src/ground/files/process-file.ts';
import { type Managed, startManagement } from '../../src/start/management.ts';
import { metricSources } from '../observe/metric-sources.ts';

describe('the process file of a management server', () => {
  const { TMPDIR } = process.env;
  let folder: string;
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);
  const logger = { debug: log, info: log, warn: log, error: log };
  const managed = {
    sources: metricSources(),
    info: { service: { name: 'orders', version: '1.4.0' }, svc: { version: '0.1.0' } },
    keys: () => [],
    breakers: {},
  } as unknown as Managed;
  const start = () => {
    const code = { svc: { broker: { topic: 't' } }, management: { server: { port: 0 } } };
    return startManagement(loadConfig({ env: {}, code }).config, logger, managed);
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'svc-management-'));
    process.env.TMPDIR = folder;
    lines.length = 0;
  });
  afterEach(() => {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
    rmSync(folder, { recursive: true, force: true });
  });

  it('names its port while it listens', async () => {
    const server = await start();
    assert.ok(server);
    const { pid } = process;
    const [port, address, name, version] = [server.port, '127.0.0.1', 'orders', '0.1.0'];
    assert.deepEqual(readProcessFiles(), [{ pid, port, address, tls: false, name, version }]);
    await server.close();
    assert.deepEqual(readProcessFiles(), []);
  });

  it('is a line in the log where its folder is not safe, and the server runs', async () => {
    mkdirSync(processFolder());
    chmodSync(processFolder(), 0o777);
    const server = await start();
    assert.ok(server);
    assert.match(
      lines.join('\n'),
      /svc status does not find this process: ".*" cannot be used: others can use it/,
    );
    await server.close();
  });
});
