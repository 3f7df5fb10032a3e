import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { listName, readList } from '../../../../src/capture/source/listed-places.ts';
import { needing } from '../../../support/requires.ts';

describe('svc.manifest.json, which another user may have written', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'svc-list-'));
    writeFileSync(join(folder, 'orders.js'), 'function createOrder() {}');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function write(place: object, mode = 0o644): void {
    const target = { id: 'orders.js#createOrder', functionPath: 'createOrder', place, isBuilt: false };
    const files = { 'orders.js': { hash: '0'.repeat(16), targets: [target] } };
    writeFileSync(join(folder, listName), JSON.stringify({ version: 1, searched: ['orders.js'], files }));
    chmodSync(join(folder, listName), mode);
  }
  function read(): { files: number; problems: string[] } {
    const problems: string[] = [];
    return { files: readList(folder, (reason) => problems.push(reason)).files.size, problems };
  }

  for (const place of [
    { form: 'binding', at: 0, name: 'createOrder' },
    { form: 'binding', at: 0, name: '$größe_1' },
    { form: 'nameless', at: 0, nameAt: 1 },
    { form: 'method', at: 0, key: 'any "key" at all', isStatic: false },
    { form: 'value', start: 0, end: 1, path: ['a', 'b'], open: false },
  ])
    it(`takes ${JSON.stringify(place)}`, () => {
      write(place);
      assert.deepEqual(read(), { files: 1, problems: [] });
    });

  for (const place of [
    { form: 'binding', at: 0, name: '(steal(), globalThis).x' },
    { form: 'binding', at: 0, name: 'a.b' },
    { form: 'binding', at: 0, name: 'a\n' },
    { form: 'binding', at: 0, name: ['a', 'b()'] },
    { form: 'binding', at: '0', name: 'a' },
    { form: 'nameless', at: 0, nameAt: -1 },
    { form: 'value', start: 0, end: 0.5, path: [], open: false },
    { form: 'value', start: 0, end: 1, path: 'a', open: false },
    { form: 'other' },
  ])
    it(`refuses ${JSON.stringify(place)}`, () => {
      write(place);
      const reason = 'svc manifest did not write it: run svc manifest again';
      assert.deepEqual(read(), { files: 0, problems: [reason] });
    });

  it('refuses one that others may write', () => {
    write({ form: 'binding', at: 0, name: 'createOrder' }, 0o666);
    const { files, problems } = read();
    assert.equal(files, 0);
    assert.match(
      problems.join(),
      /^it is code that others may write \(mode 666\), and is not run: run svc manifest/,
    );
  });

  it('refuses that of another user', async function () {
    await needing('superuser', this);
    write({ form: 'binding', at: 0, name: 'createOrder' });
    chownSync(join(folder, listName), 65_534, 65_534);
    const { files, problems } = read();
    assert.equal(files, 0);
    assert.match(problems.join(), /^it is code that another user owns \(uid 65534;/);
  });
});
