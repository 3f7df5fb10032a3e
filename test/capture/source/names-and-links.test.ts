import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'mocha';
import { inspect } from '../../../src/capture/inspect.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { recordingSlot } from '../recording-slot.ts';

const preload = new URL('../packages/preload.ts', import.meta.url).href;

interface Application {
  readonly files: Readonly<Record<string, string>>;
  /** From the link to what it leads to, as the link has it. */
  readonly links?: Readonly<Record<string, string>>;
  /** By `module#function`, how often `main.mjs` calls it. */
  readonly calls: Readonly<Record<string, number>>;
}

/** Each target is captured in the running application, and found by svc check. */
function compare(
  { files, links = {}, calls }: Application,
  flags: readonly string[] = [],
  main = 'main.mjs',
) {
  const folder = temporaryFolder('names');
  const place = (file: string) => {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    return join(folder, file);
  };
  for (const [file, text] of Object.entries({ 'package.json': '{}', ...files }))
    writeFileSync(place(file), text);
  for (const [link, to] of Object.entries(links)) symlinkSync(to, place(link));
  const ids = Object.keys(calls);
  const output = execFileSync(process.execPath, ['--import', preload, ...flags, main], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TARGETS: JSON.stringify(ids) },
  });
  const outcome = JSON.parse(output.trim().split('\n').at(-1) ?? '') as {
    calls: Record<string, number>;
    told: Record<string, string>;
  };
  assert.deepEqual(outcome.told, Object.fromEntries(ids.map((id) => [id, 'patched'])));
  assert.deepEqual(outcome.calls, calls);
  const reports = inspect(
    ids.map((id) => {
      const at = id.lastIndexOf('#');
      const [module, functionPath] = [id.slice(0, at), id.slice(at + 1)];
      return { id, module, functionPath, makePlan: () => recordingSlot({ id }).plan };
    }),
    { baseDir: folder },
  );
  for (const { id, state, reason } of reports)
    assert.match(`${state} ${reason}`, /^(found|pending) undefined$/, id);
}

describe('capture: names and links', function () {
  this.timeout(30_000);

  const composed = 'caf\u00e9';
  const decomposed = 'cafe\u0301';
  for (const [is, says, what] of [
    [decomposed, composed, 'a target in NFC finds what is there in NFD'],
    [composed, decomposed, 'a target in NFD finds what is there in NFC'],
  ] as const)
    it(`${what}: files, folders, functions, packages`, () => {
      const one = 'export const f = () => 1;';
      compare({
        files: {
          'package.json': JSON.stringify({ imports: { [`#${is}`]: './mapped.mjs' } }),
          [`src/${is}.mjs`]: one,
          [`src/${is}-a.cjs`]: 'exports.f = () => 1;',
          [`src/${is}-b.js`]: 'exports.f = () => 1;',
          [`${is}/x/o.mjs`]: one,
          [`${is}-index/index.js`]: 'exports.f = () => 1;',
          'mapped.mjs': one,
          'names.mjs': `
            export const ${is} = () => 1;
            export class K${is} { ${is}() { return 1; } }
            export const o = { '${is}': () => 1 };
            export const make = () => ({ '${is}'() { return 1; } });`,
          'node_modules/modern/package.json': '{"name":"modern","type":"module","exports":"./index.js"}',
          'node_modules/modern/index.js': `export { ${is} } from './inner.js';`,
          'node_modules/modern/inner.js': `export const ${is} = () => 1;`,
          'node_modules/common/package.json': '{"name":"common"}',
          'node_modules/common/index.js': `exports.${is} = () => 1; exports['made' + '${is}'] = () => 1;`,
          [`node_modules/common/${is}.js`]: 'exports.f = () => 1;',
          'main.mjs': `
            import { createRequire } from 'node:module';
            const load = createRequire(import.meta.url);
            const files = ['src/${is}.mjs', '${is}/x/o.mjs', 'mapped.mjs'];
            for (const file of files) (await import('./' + file)).f();
            for (const file of ['src/${is}-a.cjs', 'src/${is}-b', '${is}-index']) load('./' + file).f();
            const names = await import('./names.mjs');
            names['${is}'](); new names['K${is}']()['${is}'](); names.o['${is}'](); names.make()['${is}']();
            (await import('modern'))['${is}']();
            const common = load('common');
            common['${is}'](); common['made${is}'](); load('common/${is}').f();`,
        },
        calls: {
          [`./src/${says}.mjs#f`]: 1,
          [`./src/${says}-a.cjs#f`]: 1,
          [`./src/${says}-b#f`]: 1,
          [`./${says}/x/o.mjs#f`]: 1,
          [`./${says}-index#f`]: 1,
          [`#${says}#f`]: 1,
          [`./names.mjs#${says}`]: 1,
          [`./names.mjs#K${says}.prototype.${says}`]: 1,
          [`./names.mjs#o.${says}`]: 1,
          [`./names.mjs#make().${says}`]: 1,
          [`modern#${says}`]: 1,
          [`common#${says}`]: 1,
          [`common#made${says}`]: 1,
          [`common/${says}#f`]: 1,
        },
      });
    });

  /** Under the name of the file, and under that of the link. */
  const linked = (is: 'file' | 'link'): Application => ({
    files: {
      'real/o.mjs': 'export const f = () => 1;',
      'real/o.cjs': 'exports.f = () => 1;',
      'real/folder/o.mjs': 'export const f = () => 1;',
      'real/main.mjs': `
        import { createRequire } from 'node:module';
        function entry() {}
        entry();
        const load = createRequire(import.meta.url);
        const at = import.meta.url.replace(/real\\/[^/]*$|[^/]*$/, '');
        (await import(at + 'other.mjs')).f();
        load(new URL('other.cjs', at).pathname).f();
        (await import(at + 'linked/o.mjs')).f();
        (await import('space')).f();
        load('spaces').f();
        (await import('store')).f();
        load('stores').f(); load('stores').made();
        (await import('handed')).f();`,
      'packages/space/package.json': '{"name":"space","type":"module","exports":"./index.js"}',
      'packages/space/index.js': 'export const f = () => 1;',
      'packages/spaces/package.json': '{"name":"spaces"}',
      'packages/spaces/index.js': 'exports.f = () => 1;',
      'node_modules/.pnpm/store@1/node_modules/store/package.json':
        '{"name":"store","type":"module","exports":"./index.js"}',
      'node_modules/.pnpm/store@1/node_modules/store/index.js': `export * from './inner.js';`,
      'node_modules/.pnpm/store@1/node_modules/store/inner.js': 'export const f = () => 1;',
      'node_modules/.pnpm/stores@1/node_modules/stores/package.json': '{"name":"stores"}',
      'node_modules/.pnpm/stores@1/node_modules/stores/index.js': `
        exports.f = require('./inner').f; exports['ma' + 'de'] = () => 1;`,
      'node_modules/.pnpm/stores@1/node_modules/stores/inner.js': 'exports.f = () => 1;',
      'node_modules/.pnpm/handed@1/node_modules/handed/package.json':
        '{"name":"handed","type":"module","exports":"./index.js"}',
      'node_modules/.pnpm/handed@1/node_modules/handed/index.js': 'export const f = () => 1;',
    },
    links: {
      'other.mjs': 'real/o.mjs',
      'other.cjs': 'real/o.cjs',
      linked: 'real/folder',
      'app.mjs': 'real/main.mjs',
      'node_modules/space': '../packages/space',
      'node_modules/spaces': '../packages/spaces',
      'node_modules/store': '.pnpm/store@1/node_modules/store',
      'node_modules/stores': '.pnpm/stores@1/node_modules/stores',
      'node_modules/handed': '.pnpm/handed@1/node_modules/handed',
    },
    calls:
      is === 'file'
        ? {
            './real/main.mjs#entry': 1,
            './real/o.mjs#f': 1,
            './real/o.cjs#f': 1,
            './real/folder/o.mjs#f': 1,
            './packages/space/index.js#f': 1,
            './packages/spaces/index.js#f': 1,
          }
        : {
            './app.mjs#entry': 1,
            './other.mjs#f': 1,
            './other.cjs#f': 1,
            './linked/o.mjs#f': 1,
            'space#f': 1,
            'spaces#f': 1,
            'store#f': 1,
            'stores#f': 1,
            'stores#made': 1,
            'handed#f': 1,
          },
  });
  for (const flags of [[], ['--preserve-symlinks'], ['--preserve-symlinks', '--preserve-symlinks-main']])
    for (const is of ['file', 'link'] as const)
      it(`finds what is linked by the name of the ${is}, with ${flags.join(' ') || 'no flag'}`, () =>
        compare(linked(is), flags, 'app.mjs'));
});
