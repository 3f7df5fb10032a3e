import assert from 'node:assert/strict';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import { before, describe, it } from 'mocha';
import { readList } from '../../../src/capture/source/listed-places.ts';
import { initialize, load } from '../../../src/capture/source/loader-thread.ts';
import { importParser } from '../../../src/capture/source/parse-text.ts';
import { writeApp } from './run-app.ts';

describe('capture: the loader thread', () => {
  before(importParser);

  const text = 'export function create(order) {}';
  const context = { conditions: [], format: 'module', importAttributes: {} };
  const setUp = () => {
    const folder = writeApp({ 'a.mjs': text });
    const path = join(folder, 'a.mjs');
    const { port1, port2 } = new MessageChannel();
    const targets = [
      { id: 'x#create', functionPath: 'create' },
      { id: 'x#cancel', functionPath: 'cancel' },
    ];
    const files = new Map([[path, targets]]);
    initialize({
      packages: [],
      files,
      pending: { files, baseDir: folder, listed: readList(folder, assert.fail) },
      port: port2,
    });
    const loaded = async (
      format: string,
      source: string | Buffer | undefined,
      url = pathToFileURL(path).href,
    ) =>
      (await load(url, context, () => ({ format: format as 'module', source, shortCircuit: true }))).source;
    return { port: port1, loaded, folder };
  };

  it('inserts, and tells the main thread what it found', async () => {
    const { port, loaded } = setUp();
    const source = String(await loaded('module', Buffer.from(text)));
    port.close();
    assert.match(source, /^;create=.*"x#create",\["order"\]/);
    const messages = [receiveMessageOnPort(port)?.message, receiveMessageOnPort(port)?.message];
    assert.deepEqual(messages, [
      { id: 'x#create', problem: undefined },
      { id: 'x#cancel', problem: 'no cancel in this file' },
    ]);
  });

  it('takes typed modules, and no other format', async () => {
    const { loaded, port } = setUp();
    const typed = 'export function create(order: string): void {}';
    assert.notEqual(await loaded('module-typescript', typed), typed);
    for (const format of ['commonjs', 'commonjs-typescript', 'json', 'wasm', 'builtin'])
      assert.equal(await loaded(format, text), text);
    assert.equal(await loaded('module', undefined), undefined);
    port.close();
  });

  it('leaves other files alone, and texts that stand in front of a module', async () => {
    const { loaded, folder, port } = setUp();
    const other = pathToFileURL(join(folder, 'b.mjs')).href;
    assert.equal(await loaded('module', text, other), text);
    assert.equal(await loaded('module', text, 'data:text/javascript,a.mjs'), text);
    const url = pathToFileURL(join(folder, 'a.mjs')).href;
    const proxy = `import * as namespace from "${url}"\nlet create = namespace.create\nexport { create }`;
    assert.equal(await loaded('module', proxy, `${url}?iitm=true`), proxy);
    port.close();
  });
});
