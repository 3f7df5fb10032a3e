import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { installPacked } from '../../support/packed.ts';
import { startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
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
    .replace(/^import (.*) from '(.*)';$/gm, "const $1 = require('$2');")
    .replace(/^export const (\w+) =/gm, 'const $1 = exports.$1 =')
    .replace(/^export async function (\w+)/gm, 'exports.$1 = async function $1');

/** For Jest and Vitest, which have packages in different hands: a target in one, and rows of a driver. */
const packageTest = (imports: string, expected: string): string => `${imports}
beforeEach(() => clear());
it('the function of a package', async () => {
  assert.equal(priceOf('tea'), 3);
  ${expected}
});
`;
const outboxTest = (imports: string): string => `${imports}
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
beforeAll(async () => {
  await client.connect();
  await client.query('CREATE TABLE IF NOT EXISTS orders (id text)');
});
afterAll(() => client.end());
beforeEach(() => clear());
const placeOrder = publishEvent(
  { eventType: 'ORDER_PLACED', payload: '{ id: #args[0] }', outbox: { aggregateType: 'Order', aggregateId: '#args[0]' } },
  (id) => client.query('INSERT INTO orders VALUES ($1)', [id]),
);
for (const [end, assertEnd] of [['COMMIT', assertStored], ['ROLLBACK', assertRolledBack]])
  it(end, async () => {
    await client.query('BEGIN');
    await placeOrder(end);
    await client.query(end);
    assertEnd({ eventType: 'ORDER_PLACED', aggregateId: end });
  });
`;
const moduleImports = `import assert from 'node:assert';
import pg from 'pg';
import { priceOf } from 'pricing';
import { publishEvent } from 'svc';
import { assertRolledBack, assertStored, clear, waitFor } from 'svc/testing';
`;

// Once per Node in the matrix.
const suite = isMatrix && otel !== 3 ? () => {} : requiring;

suite('postgres', 'docs/testing.md, word for word', function () {
  this.timeout(300_000);
  let app: string;

  before(() => {
    app = installPacked('test-runners', { jest: '30.5.2', mocha: '12.0.3', pg: '^8.23.1', vitest: '5.1.1' });
  });

  async function runs(
    files: Files,
    command: string,
    type = 'module',
    more: NodeJS.ProcessEnv = {},
  ): Promise<Run & { said: string }> {
    const folder = freshFolder(app, 'tests');
    const config = 'svc.config.json' in files ? {} : application;
    writeFiles(folder, { 'package.json': JSON.stringify({ type }), ...config, ...files });
    const path = [join(app, 'node_modules/.bin'), dirname(node), process.env.PATH].join(delimiter);
    const run = await runApp({
      ...{ node: '/bin/sh', cwd: folder, args: ['-c', command.replaceAll('npx ', '')] },
      env: { PATH: path, NO_COLOR: '1', CI: '1', ...more },
    });
    return { ...run, said: run.stdout + run.stderr };
  }

  /** `unreached`: svc has to say that no module of the configured target was loaded. */
  function passes({ code, said }: Run & { said: string }, count: RegExp, unreached = false): void {
    assert.equal(code, 0, said);
    assert.match(said, count);
    const report = /svc: capture: 1 of \d targets made no event: no module of theirs was loaded/;
    if (unreached) assert.match(said, report);
    assert.doesNotMatch(said, /svc: (?:warn|error)|torn down|unknown error|did not exit|FAILED/, said);
  }

  it('Vitest', async () => {
    const { files, command } = sectionOf('Vitest');
    passes(await runs(files, command), /Tests +2 passed/);
    passes(await runs(files, `${command.trim()} --pool threads`), /Tests +2 passed/);
    const { said } = await runs(files, `${command.trim()} --pool vmForks`);
    assert.match(said, /✓ publishes orders[\s\S]*× publishes refunds[\s\S]*Tests +1 failed \| 1 passed/);
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
      passes(await runs(twoFiles, `${jest.command.trim()} ${workers}`, 'commonjs'), /Tests: +2 passed/, true);
      const plain = { ...twoFiles, 'jest.config.js': 'module.exports = {};\n' };
      passes(await runs(plain, `${flag} ${workers}`, 'commonjs'), /Tests: +2 passed/, true);
    });

  it('Jest with ES modules', async () => {
    const files = {
      'jest.config.js': (jest.files['jest.config.js'] ?? '').replace('module.exports =', 'export default'),
      'test/orders.test.js': (jest.files['test/orders.test.js'] ?? '').replace(
        /^const (\{.*\}) = require\((.*)\);$/gm,
        'import $1 from $2;',
      ),
    };
    const command = `NODE_OPTIONS=--experimental-vm-modules ${jest.command}`;
    passes(await runs(files, command), /Tests: +1 passed/, true);
  });

  /** Both in one application: with the package `pricing` and the outbox. */
  async function withPackages(files: Files, command: string, type: string): Promise<Run & { said: string }> {
    const url = await (await startPostgres()).freshDatabase();
    const config = {
      broker: { topic: 'orders' },
      outbox: { enabled: true, datasource: { url }, initializeSchema: 'always' },
      targets: [{ module: 'pricing', function: 'priceOf', eventType: 'PRICED' }],
    };
    const all = {
      'svc.config.json': JSON.stringify({ svc: config }),
      'node_modules/pricing/package.json': JSON.stringify({ name: 'pricing', version: '1.0.0' }),
      'node_modules/pricing/index.js': 'exports.priceOf = (product) => product.length;\n',
      ...files,
    };
    return runs(all, command, type, { DATABASE_URL: url });
  }

  it('Vitest: TypeScript is captured, and stacks are those of the source', async () => {
    const { files, command } = sectionOf('Vitest');
    const ts = {
      'vitest.config.js': files['vitest.config.js'] ?? '',
      'svc.config.json': JSON.stringify({
        svc: {
          broker: { topic: 'orders' },
          targets: [
            { module: './src/ship.ts', function: 'Shipping.prototype.ship', eventType: 'SHIPPED' },
            { module: './src/ship.ts', function: 'nothing', eventType: 'NOTHING' },
          ],
        },
      }),
      'src/ship.ts': `interface Parcel { id: number }

export class Shipping {
  ship({ id }: Parcel): Parcel { if (id < 0) throw new Error('no such parcel'); return { id }; }
}
`,
      'test/ship.test.ts': `import { waitFor } from 'svc/testing';
import { expect, it } from 'vitest';
import { Shipping } from '../src/ship';

it('ships', async () => {
  new Shipping().ship({ id: 1 });
  await waitFor({ eventType: 'SHIPPED' });
  expect(() => new Shipping().ship({ id: -1 })).toThrow(
    expect.objectContaining({ stack: expect.stringMatching(/src\\/ship\\.ts:4:52\\)/) }),
  );
});
`,
    };
    const { code, said } = await runs(ts, command);
    assert.equal(code, 0, said);
    assert.match(said, /warning: target src\/ship\.ts#nothing is not captured: no nothing in this file/);
  });

  it('Vitest: packages are captured, and their transactions followed', async () => {
    const { files, command } = sectionOf('Vitest');
    const imports = `${moduleImports}import { afterAll, beforeAll, beforeEach, it } from 'vitest';\n`;
    const run = await withPackages(
      {
        'vitest.config.js': files['vitest.config.js'] ?? '',
        'test/package.test.js': packageTest(imports, "await waitFor({ eventType: 'PRICED' });"),
        'test/outbox.test.js': outboxTest(imports),
      },
      command,
      'module',
    );
    passes(run, /Tests +3 passed/);
  });

  it('Jest: packages are not captured, and drivers followed that it is shown', async () => {
    const imports = commonJs(moduleImports);
    const config = (jest.files['jest.config.js'] ?? '').replace(
      "['svc/register']",
      "['svc/register', './test/drivers.js']",
    );
    assert.match(page, /`setupFiles: \['svc\/register', '.\/test\/drivers.js'\]`/);
    const run = await withPackages(
      {
        ...jest.files,
        'jest.config.js': config,
        'test/orders.test.js': packageTest(
          imports,
          `await assert.rejects(waitFor({ eventType: 'PRICED', timeoutMs: 300 }), /PRICED: 0 of 1/);`,
        ),
        'test/outbox.test.js': outboxTest(imports),
      },
      jest.command,
      'commonjs',
    );
    passes(run, /Tests: +3 passed/, true);
  });

  it('without svc each runner fails, and the sentence says what is missing', async () => {
    const sentence = /svc is not running in this process, .*Start the tests with/;
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
