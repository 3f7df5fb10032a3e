import assert from 'node:assert/strict';
import { chmodSync, chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readMap } from '../../src/capture/source/source-map.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import { changeableByOthers, readBounded, readBoundedSync } from '../../src/ground/files.ts';
import { temporaryFolder } from '../support/folders.ts';

const isWindows = process.platform === 'win32';

describe('files that svc reads and others may write', () => {
  const fileOf = (bytes: number): string => {
    const path = join(temporaryFolder('bounded'), 'file');
    writeFileSync(path, 'a'.repeat(bytes));
    return path;
  };
  const ways = [
    ['at once', async (path: string, max?: number) => readBoundedSync(path, max)],
    ['aside', (path: string, max?: number) => readBounded(path, max)],
  ] as const;
  for (const [what, read] of ways) {
    for (const bytes of [0, 1, 99, 100])
      it(`${what}: ${bytes} bytes of 100 are read`, async () => {
        assert.equal((await read(fileOf(bytes), 100)).toString(), 'a'.repeat(bytes));
      });
    it(`${what}: 101 bytes of 100 are refused, and one byte more than a MiB`, async () => {
      await assert.rejects(read(fileOf(101), 100), { code: 'EFBIG' });
      await assert.rejects(read(fileOf(1024 ** 2 + 1)), { code: 'EFBIG' });
    });
    if (!isWindows)
      it(`${what}: a device without end is refused`, () =>
        assert.rejects(read('/dev/zero'), { code: 'EFBIG' }));
    it(`${what}: what is not there has the code of Node`, () =>
      assert.rejects(read('/no/such/file'), { code: 'ENOENT' }));
  }

  if (!isWindows) {
    for (const [mode, isOpen] of [
      [0o600, false],
      [0o644, false],
      [0o664, false],
      [0o666, true],
      [0o602, true],
    ] as const)
      it(`of mode ${mode.toString(8)}, others may ${isOpen ? '' : 'not '}change it`, () => {
        const path = fileOf(1);
        chmodSync(path, mode);
        assert.equal(changeableByOthers(path) !== undefined, isOpen);
        const svc = {
          broker: {
            client: 'memory',
            topic: 'a',
            sasl: { mechanism: 'oauthbearer', oauthbearer: { tokenFile: path } },
          },
        };
        const { warnings } = loadConfig({ cwd: temporaryFolder('config'), env: {}, code: { svc } });
        assert.equal(
          warnings.filter(({ message }) => message.includes('others may write it')).length,
          isOpen ? 1 : 0,
        );
      });
    if (process.geteuid?.() === 0)
      it('of another user, who may change it', () => {
        const path = fileOf(1);
        chownSync(path, 12_345, 0);
        assert.match(changeableByOthers(path) ?? '', /another user owns it \(uid 12345/);
      });
  }

  if (!isWindows)
    for (const [code, map, isUsed] of [
      [0o644, 0o644, true],
      [0o644, 0o666, false],
      [0o666, 0o666, true],
    ] as const)
      it(`a source map of mode ${map.toString(8)} beside code of mode ${code.toString(8)} is ${isUsed ? '' : 'not '}used`, () => {
        const folder = temporaryFolder('map');
        const [file, text] = [join(folder, 'a.js'), 'f();\n//# sourceMappingURL=a.js.map'];
        writeFileSync(file, text);
        writeFileSync(
          `${file}.map`,
          JSON.stringify({ version: 3, sources: ['a.ts'], names: [], mappings: 'AAAA' }),
        );
        chmodSync(file, code);
        chmodSync(`${file}.map`, map);
        const read = readMap(file, text, ['a.ts']);
        if (isUsed) assert.ok(read !== undefined && 'parts' in read);
        else assert.match(JSON.stringify(read), /others may write it \(mode 666\)/);
      });

  for (const [url, by, isTold] of [
    ['http://registry.example:8081', { schemaRegistryToken: 'a-token' }, true],
    ['http://registry.example:8081', { schemaRegistryUsername: 'u', schemaRegistryPassword: 'p' }, true],
    ['http://registry.example:8081', {}, false],
    ['https://registry.example:8081', { schemaRegistryToken: 'a-token' }, false],
    ['http://127.0.0.1:8081', { schemaRegistryToken: 'a-token' }, false],
    ['http://[::1]:8081', { schemaRegistryToken: 'a-token' }, false],
  ] as const)
    it(`${Object.keys(by)[0] ?? 'nothing'} to ${url} is ${isTold ? '' : 'not '}said to go unencrypted`, () => {
      const svc = {
        broker: { bootstrapServers: ['a:1'], topic: 'a' },
        serde: { type: 'AVRO', schemaRegistryUrl: url, ...by },
      };
      const { warnings } = loadConfig({ cwd: temporaryFolder('config'), env: {}, code: { svc } });
      assert.equal(warnings.filter(({ message }) => message.includes('unencrypted')).length, isTold ? 1 : 0);
    });
});
