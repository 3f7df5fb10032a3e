import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { installPacked } from '../../support/packed.ts';
import { type Files, freshFolder, type Run, runApp, writeFiles } from '../support/run-app.ts';
import { subject } from '../support/subject.ts';

const { node, otel, isMatrix } = await subject();
const page = readFileSync(resolve(import.meta.dirname, '../../../docs/testing.md'), 'utf8');

/** What the page says under one heading: files by the path in their first line, and the command. */
function sectionOf(title: string): { files: Record<string, string>; command: string } {
  const section = page.split(/^## /m).find((each) => each.startsWith(title)) ?? assert.fail(title);
  const files: Record<string, string> = {};
  for (const [, path = '', text = ''] of section.matchAll(/```\w+\n(?:\/\/|#) (\S+\.\w+)\n([\s\S]*?)```/g))
    files[path] = text;
  return { files, command: /```sh\n([\s\S]*?)```/.exec(section)?.[1] ?? '' };
}

const application = sectionOf('# Tests of applications').files;
const nodeTest = sectionOf('node:test');
const jest = sectionOf('Jest');

/** As Babel, ts-jest and others hand it to Jest. */
const commonJs = (text: string): string =>
  text
    .replace(/^import (\{.*\}) from '(.*)';$/gm, "const $1 = require('$2');")
    .replace(/^export const (\w+) =/gm, 'const $1 = exports.$1 =')
    .replace(/^export async function (\w+)/gm, 'exports.$1 = async function $1');

// Once per Node in the matrix.
const suite = isMatrix && otel !== 3 ? () => {} : describe;

suite('docs/testing.md, word for word', function () {
  this.timeout(300_000);
  let app: string;

  before(() => {
    app = installPacked('test-runners', { jest: '30.5.2', mocha: '12.0.3', vitest: '5.1.1' });
  });

  async function runs(files: Files, command: string, type = 'module'): Promise<Run & { said: string }> {
    const folder = freshFolder(app, 'tests');
    writeFiles(folder, { 'package.json': JSON.stringify({ type }), ...application, ...files });
    const path = [join(app, 'node_modules/.bin'), dirname(node), process.env.PATH].join(delimiter);
    const run = await runApp({
      ...{ node: '/bin/sh', cwd: folder, args: ['-c', command.replaceAll('npx ', '')] },
      env: { PATH: path, NO_COLOR: '1', CI: '1' },
    });
    return { ...run, said: run.stdout + run.stderr };
  }

  function passes({ code, said }: { code: number | null; said: string }, count: RegExp): void {
    assert.equal(code, 0, said);
    assert.match(said, count);
    assert.doesNotMatch(said, /svc: (?:warn|error)|torn down|unknown error|did not exit|FAILED/, said);
  }

  it('Vitest', async () => {
    const { files, command } = sectionOf('Vitest');
    passes(await runs(files, command), /Tests +2 passed/);
    passes(await runs(files, `${command.trim()} --pool threads`), /Tests +2 passed/);
  });

  it('node:test', async () => {
    passes(await runs(nodeTest.files, nodeTest.command), /pass 2\n/);
  });

  it('Mocha', async () => {
    const { command } = sectionOf('Mocha');
    const config = /```json\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
    const files = { '.mocharc.json': config, 'test/orders.test.js': test(/.*'node:test';\n/, '') };
    passes(await runs(files, command), /2 passing/);
  });

  const inCommonJs = { ...jest.files, 'src/orders.js': commonJs(application['src/orders.js'] ?? '') };
  /** One more file: each has a realm of its own, and svc outlives the first. */
  const twoFiles = { ...inCommonJs, 'test/again.test.js': jest.files['test/orders.test.js'] ?? '' };
  const flag = "NODE_OPTIONS='--import svc/register' SVC_BROKER_CLIENT=memory jest";

  for (const workers of ['--runInBand', '--maxWorkers 2'])
    it(`Jest, ${workers}`, async () => {
      passes(await runs(twoFiles, `${jest.command.trim()} ${workers}`, 'commonjs'), /Tests: +2 passed/);
      const plain = { ...twoFiles, 'jest.config.js': 'module.exports = {};\n' };
      passes(await runs(plain, `${flag} ${workers}`, 'commonjs'), /Tests: +2 passed/);
    });

  it('without svc each runner fails, and the sentence says what is missing', async () => {
    const sentence = /svc is not running in this process, .*start the tests with/;
    const all = [
      await runs(nodeTest.files, 'node --test'),
      await runs({ ...inCommonJs, 'jest.config.js': 'module.exports = {};\n' }, 'jest', 'commonjs'),
    ];
    for (const { code, said } of all) {
      assert.notEqual(code, 0, said);
      assert.match(said, sentence);
    }
  });

  /** The test of node:test for another runner. */
  function test(imports: RegExp, instead: string): string {
    return (nodeTest.files['test/orders.test.js'] ?? '').replace(imports, instead);
  }
});
