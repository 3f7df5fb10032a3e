import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hasManifest, nearestManifest, readManifest } from '../../../src/ground/files.ts';
import { temporaryFolder } from '../../support/folders.ts';

describe('package.json', () => {
  let root: string;
  const folder = (path: string, text?: string) => {
    const made = join(root, path);
    mkdirSync(made, { recursive: true });
    if (text !== undefined) writeFileSync(join(made, 'package.json'), text);
    return made;
  };
  beforeEach(() => {
    root = temporaryFolder('manifest');
  });

  it('is read where it stands; a field of the wrong type is not there', () => {
    const app = folder('app', '{"name":"app","version":7,"exports":{".":"./a.js"},"private":true}');
    const manifest = readManifest(app);
    assert.deepEqual([manifest?.folder, manifest?.name, manifest?.version], [app, 'app', undefined]);
    assert.deepEqual(manifest?.exports, { '.': './a.js' });
    assert.deepEqual(manifest?.fieldNames, ['name', 'version', 'exports', 'private']);
    assert.deepEqual(manifest?.dependencies, []);
    const shop = folder('shop', '{"dependencies":{"pg":"^8","mysql2":"^3"}}');
    assert.deepEqual(readManifest(shop)?.dependencies, ['pg', 'mysql2']);
    assert.deepEqual(readManifest(folder('odd-list', '{"dependencies":["pg"]}'))?.dependencies, []);
  });

  it('that cannot be read is there, and says nothing', () => {
    for (const [index, text] of ['{ not json', 'null', ''].entries()) {
      const broken = folder(`broken-${index}`, text);
      assert.deepEqual([hasManifest(broken), readManifest(broken)], [true, undefined], text);
    }
  });

  it('that is a folder is none', () => {
    const odd = folder('odd');
    folder('odd/package.json');
    assert.deepEqual([hasManifest(odd), readManifest(odd)], [false, undefined]);
  });

  it('is looked for upwards, past those that are not wanted', () => {
    folder('app', '{"name":"app"}');
    folder('app/dist', '{"type":"module"}');
    const deep = folder('app/dist/lib');
    assert.equal(nearestManifest(deep)?.type, 'module');
    assert.equal(nearestManifest(deep, ({ name }) => name !== undefined)?.name, 'app');
  });
});
