import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { plainApp } from '../support/apps.ts';
import { type Files, freshFolder, runApp, writeFiles } from '../support/run-app.ts';
import { subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';

const tested = await subject();

const body = `(id) {
  if (id > 5) {
    return 'big';
  }
  return id ?? 0;
}
`;

/** Files whose text svc changes; each exports `run`. */
const texts: Files = {
  'declared.mjs': `export function run${body}export function unused() { return 1; }\n`,
  'default.mjs': `export default function ${body}`,
  'arrow.mjs': `const other = () => 2;\nexport const run = (id) => (id > 5 ? other() : id);\n`,
  'object.mjs': `export const orders = { run${body.trimEnd()}, stop() { return 1; } };\nexport const run = (id) => orders.run(id);\n`,
  'class.mjs': `class Orders {\n  static made = 1;\n  run${body}  stop() {}\n}\nexport const run = (id) => new Orders().run(id);\n`,
  'common.cjs': `exports.run = function ${body}exports.unused = () => 1;\n`,
  'linked.cjs': `exports.run = function ${body}//# sourceMappingURL=linked.cjs.map\n`,
  'linked.cjs.map': JSON.stringify({
    ...{ version: 3, sources: ['linked.ts'], sourcesContent: [`exports.run = function ${body}`] },
    ...{ names: [], mappings: 'AAAA;AACA;AACA;AACA;AACA;AACA' },
  }),
  'typed.mts': `export function run(id: number): unknown {\n  if (id > 5) {\n    return 'big' as string;\n  }\n  return id;\n}\n`,
};

const targets = [
  ...['declared.mjs', 'arrow.mjs', 'common.cjs', 'linked.cjs', 'typed.mts'].map((file) => [file, 'run']),
  ...[
    ['default.mjs', 'default'],
    ['object.mjs', 'orders.run'],
    ['class.mjs', 'Orders.prototype.run'],
  ],
].map(([file, name]) => ({ module: `./${file}`, function: name as string }));

interface Report {
  readonly result: readonly { readonly url: string; readonly functions: unknown[] }[];
  readonly 'source-map-cache'?: Readonly<Record<string, unknown>>;
}

// Of TypeScript where Node runs it; of ES modules where Node has synchronous hooks.
const isRun = (file: string): boolean =>
  !file.endsWith('.map') &&
  (tested.stripsTypes || !file.endsWith('.mts')) &&
  (tested.hasSoundSyncHooks || file.endsWith('.cjs'));

describe('the coverage of files with targets', function () {
  this.timeout(60_000);

  it('is what V8 counts without svc: of functions, blocks and source maps', async () => {
    const files = Object.keys(texts).filter(isRun);
    const main = files.map((file) => `const { run, default: d } = await import('./${file}'); (run ?? d)(1);`);
    const reportOf = async (args: string[]) => {
      const folder = freshFolder(plainApp(), 'coverage');
      writeFiles(folder, {
        ...texts,
        'svc.config.json': JSON.stringify(configOf(targets.filter(({ module }) => isRun(module)))),
        'main.mjs': main.map((each) => `{ ${each} }`).join('\n'),
      });
      const env = { NODE_V8_COVERAGE: join(folder, 'coverage') };
      const end = await runApp({ node: tested.node, cwd: folder, args: [...args, 'main.mjs'], env });
      assert.equal(end.code, 0, end.stderr);
      const reports = readdirSync(env.NODE_V8_COVERAGE).map(
        (name) => JSON.parse(readFileSync(join(env.NODE_V8_COVERAGE, name), 'utf8')) as Report,
      );
      const found = reports.flatMap(({ result, 'source-map-cache': maps }) =>
        result
          .filter(({ url }) => files.includes(basename(url)))
          .map(({ url, functions }) => {
            const map = JSON.stringify(maps?.[url] ?? null).replaceAll(folder, '');
            return [basename(url), { functions, map }];
          }),
      );
      return {
        found: Object.fromEntries(found) as Readonly<Record<string, unknown>>,
        events: end.events.length,
      };
    };
    const without = await reportOf([]);
    const under = await reportOf(['--import', 'svc/register']);
    assert.equal(under.events, files.length);
    for (const file of files) assert.deepEqual([file, under.found[file]], [file, without.found[file]]);
  });
});
