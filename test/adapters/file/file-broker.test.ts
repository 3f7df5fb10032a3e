import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { fileBroker } from '../../../src/adapters/file/file-broker.ts';
import { assertOneLine, failureOf, recordOf } from '../../contract/broker.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { readTopicFile } from './read-topic-file.ts';

const run = promisify(execFile);
const writer = join(import.meta.dirname, 'fixtures/write-records.ts');
const wrapped = join(import.meta.dirname, 'fixtures/wrap-fs.cjs');
const unwritable = join(import.meta.dirname, 'fixtures/unwritable.ts');

describe('file broker', () => {
  let root: string;
  let directory: string;
  const topicPath = (topic: string): string => join(directory, `${topic}.ndjson`);

  beforeEach(() => {
    root = temporaryFolder('file');
    directory = join(root, 'made/when/needed');
  });

  it('writes every record where an agent has wrapped the functions of fs', async () => {
    await run(process.execPath, ['--require', wrapped, writer, directory, 'one', '9']);
    assert.equal(readTopicFile(topicPath('shared')).length, 9);
  });

  it('writes one record a line, in the form that the reference shows', async () => {
    const record = {
      key: 'k"1',
      value: Buffer.from('{"eventId":"1"}'),
      headers: { eventType: 'A' },
      timestamp: 1_772_618_400_131,
    };
    await fileBroker.open({ directory }).send('orders', 0, [record, { ...record, key: null, headers: {} }]);
    assert.equal(
      readFileSync(topicPath('orders'), 'utf8'),
      '{"timestamp":1772618400131,"key":"k\\"1","headers":{"eventType":"A"},"value":{"eventId":"1"}}\n' +
        '{"timestamp":1772618400131,"key":null,"headers":{},"value":{"eventId":"1"}}\n',
    );
  });

  it('makes directory and files for their owner only', async () => {
    await fileBroker.open({ directory }).send('orders', 0, [recordOf(1)]);
    assert.equal(statSync(topicPath('orders')).mode & 0o777, 0o600);
    for (const path of ['made', 'made/when', 'made/when/needed']) {
      assert.equal(statSync(join(root, path)).mode & 0o777, 0o700, path);
    }
  });

  it('makes what was removed while it runs', async () => {
    const broker = fileBroker.open({ directory });
    await broker.send('orders', 0, [recordOf(1)]);
    rmSync(directory, { recursive: true });
    assert.deepEqual(await broker.send('orders', 0, [recordOf(2)]), { ok: true });
    assert.equal(readTopicFile(topicPath('orders')).length, 1);
  });

  it('begins a new line where a process died half-way through one', async () => {
    const broker = fileBroker.open({ directory });
    await broker.send('orders', 0, [recordOf(1)]);
    appendFileSync(topicPath('orders'), '{"timestamp":17');
    await broker.send('orders', 0, [recordOf(2)]);
    const lines = readFileSync(topicPath('orders'), 'utf8').split('\n');
    assert.deepEqual(
      lines.map((line) => line.slice(0, 15)),
      ['{"timestamp":17', '{"timestamp":17', '{"timestamp":17', ''],
    );
    assert.equal(lines[1], '{"timestamp":17');
    assert.equal(JSON.parse(lines[2] ?? '').value, 2);
  });

  it('lets several processes append to one topic, each record a whole line', async function () {
    this.timeout(30_000);
    await Promise.all([1, 2, 3].map((name) => run(process.execPath, [writer, directory, `p${name}`, '300'])));
    const found = readTopicFile(topicPath('shared')).map(
      ({ value }) => JSON.parse(String(value)).name as string,
    );
    assert.equal(found.length, 900);
    for (const name of ['p1', 'p2', 'p3']) assert.equal(found.filter((one) => one === name).length, 300);
  });

  it('takes back what fitted of a write that did not fit', async function () {
    this.timeout(30_000);
    // The shell limits files to 64 blocks of 512 or 1024 bytes; the record is larger than both.
    const script = `ulimit -f 64; "$0" "$1" "$2" big 1 200000`;
    const { stdout } = await run('sh', ['-c', script, process.execPath, writer, directory]);
    const [small, big, after] = JSON.parse(stdout);
    assert.deepEqual([small, after], [{ ok: true }, { ok: true }]);
    assert.deepEqual([big.failure.kind, big.failure.cause], ['retriable', 'EFBIG']);
    assert.deepEqual(
      readTopicFile(topicPath('limited')).map(({ value }) => JSON.parse(String(value))),
      ['small', 'after'],
    );
  });

  it('says that the disk is full', async () => {
    mkdirSync(directory, { recursive: true });
    symlinkSync('/dev/full', topicPath('full'));
    const failure = failureOf(await fileBroker.open({ directory }).send('full', 0, [recordOf('sesame')]));
    assert.deepEqual([failure.kind, failure.cause], ['retriable', 'ENOSPC']);
    assert.match(failure.message, /^no space left to write ".*full\.ndjson"/);
    assertOneLine(failure);
  });

  it('says that a part of the path is not a directory', async () => {
    writeFileSync(join(root, 'made'), '');
    const broker = fileBroker.open({ directory });
    for (const failure of [
      failureOf(await broker.connect()),
      failureOf(await broker.send('orders', 0, [recordOf(1)])),
    ]) {
      assert.equal(failure.kind, 'fatal');
      assert.match(failure.message, /not a directory .*svc\.broker\.file\.path/);
      assertOneLine(failure);
    }
    await assert.rejects(broker.describe(), {
      code: 'SVC_ADAPTERS_NOT_REACHABLE',
      message: /not a directory/,
    });
  });

  it('says that it may not write', async function () {
    this.timeout(30_000);
    chmodSync(root, 0o777);
    const { stdout } = await run(process.execPath, [unwritable, directory]);
    const { before, after } = JSON.parse(stdout);
    for (const { failure } of [before.connect, before.send]) {
      assert.deepEqual([failure.kind, failure.cause], ['fatal', 'EACCES']);
      assert.match(failure.message, /cannot be written: permission denied \(EACCES\): check its permissions/);
    }
    assert.equal(before.describe, 'SVC_ADAPTERS_NOT_REACHABLE');
    assert.deepEqual(after, {
      connect: { ok: true },
      send: { ok: true },
      describe: { clusterId: null, nodeCount: 1 },
    });
  });

  it('refuses a value that would break the form of the file', async () => {
    const broker = fileBroker.open({ directory });
    for (const bytes of [Buffer.from('{"a":\n1}'), Buffer.from([0, 0, 0, 0, 1, 2]), Buffer.alloc(0)]) {
      const failure = failureOf(await broker.send('orders', 0, [recordOf(0, { value: bytes })]));
      assert.deepEqual([failure.kind, failure.cause], ['fatal', 'INVALID_RECORD']);
    }
  });

  it('writes what comes at once in few writes', async () => {
    const broker = fileBroker.open({ directory });
    const start = performance.now();
    await Promise.all(
      Array.from({ length: 5000 }, (_, index) => broker.send('orders', 0, [recordOf(index)])),
    );
    assert.ok(performance.now() - start < 1000);
    assert.deepEqual(
      readTopicFile(topicPath('orders')).map(({ value }) => Number(value)),
      Array.from({ length: 5000 }, (_, index) => index),
    );
  });
});
