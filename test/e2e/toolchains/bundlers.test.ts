import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { assertCaptured, plainSources, sources, targets } from '../../capture/source/maps/shop-source.ts';
import { runApp, writeApp } from '../../capture/source/run-app.ts';
import { installPacked } from '../../support/packed.ts';
import { subject } from '../support/subject.ts';

const { version, otel, isMatrix } = await subject();
/** Once in the matrix: what is built does not depend on the Node. */
const suite = isMatrix && version.startsWith('26.') && otel === 3 ? describe : () => {};

/** Installed on demand, pinned: none of them is a dependency of this repository. */
const packages = {
  '@nestjs/cli': '12.0.8',
  '@nestjs/common': '12.5.1',
  '@rollup/plugin-terser': '1.0.2',
  '@rollup/plugin-typescript': '12.3.1',
  '@swc/core': '1.16.20',
  'fork-ts-checker-webpack-plugin': '9.2.0',
  nitropack: '2.13.6',
  parcel: '2.16.4',
  'reflect-metadata': '0.2.2',
  rolldown: '1.3.2',
  rollup: '4.68.8',
  'swc-loader': '0.2.7',
  'ts-loader': '9.6.2',
  'tsconfig-paths-webpack-plugin': '4.2.0',
  tslib: '2.9.1',
  typescript: '5.9.3',
  vite: '8.3.8',
  webpack: '5.112.2',
  'webpack-cli': '7.3.1',
  'webpack-node-externals': '3.0.0',
};

const tsconfig = (more: object = {}) =>
  JSON.stringify({
    compilerOptions: {
      ...{
        target: 'es2022',
        module: 'nodenext',
        moduleResolution: 'nodenext',
        sourceMap: true,
        strict: true,
      },
      ...{ skipLibCheck: true, types: [], lib: ['es2023', 'dom'], rootDir: 'src', outDir: 'dist', ...more },
    },
    include: ['src'],
  });
const webpack = (loader: object) => `module.exports = {
  mode: 'production', target: 'node', devtool: 'source-map', entry: './src/main.ts',
  output: { path: require('node:path').resolve('dist'), filename: 'main.cjs' },
  resolve: { extensions: ['.ts', '.js'], extensionAlias: { '.js': ['.ts', '.js'] } },
  module: { rules: [{ test: /\\.ts$/, use: ${JSON.stringify(loader)} }] },
};`;
const rolldown = (output: object) =>
  `export default { input: 'src/main.ts', platform: 'node', resolve: { extensionAlias: { '.js': ['.ts', '.js'] } }, output: ${JSON.stringify({ sourcemap: true, minify: true, ...output })} };`;
const rollup = `import typescript from '@rollup/plugin-typescript';
import terser from '@rollup/plugin-terser';
const compilerOptions = { module: 'esnext', moduleResolution: 'bundler', outDir: 'dist' };
export default {
  input: 'src/main.ts', output: { file: 'dist/main.mjs', format: 'es', sourcemap: true },
  plugins: [typescript({ compilerOptions }), terser()],
};`;

interface Build {
  readonly main: string;
  readonly files: Record<string, string>;
  /** The program, of the project itself or below node_modules, and its arguments. */
  readonly run: readonly [program: string, ...args: string[]];
}

const runWebpack = ['webpack-cli/bin/cli.js', '-c', 'webpack.config.cjs'] as const;
const runRolldown = ['rolldown/bin/cli.mjs', '-c', 'rolldown.config.mjs'] as const;
const tsLoader = {
  loader: 'ts-loader',
  options: { transpileOnly: true, compilerOptions: { module: 'esnext', moduleResolution: 'bundler' } },
};
const swcLoader = {
  loader: 'swc-loader',
  options: { jsc: { parser: { syntax: 'typescript' }, target: 'es2022' } },
};
const vite = "export default { build: { ssr: 'src/main.ts', minify: true, sourcemap: true } };";

const swc = `import { mkdirSync, writeFileSync } from 'node:fs';
import { transformFileSync } from '@swc/core';
mkdirSync('dist');
for (const name of ['main', 'orders', 'stamp']) {
  const jsc = { target: 'es2022', parser: { syntax: 'typescript' }, minify: { compress: true, mangle: { toplevel: true } } };
  const options = { swcrc: false, sourceMaps: true, minify: true, sourceFileName: '../src/' + name + '.ts', module: { type: 'es6' }, jsc };
  const { code, map } = transformFileSync('src/' + name + '.ts', options);
  writeFileSync('dist/' + name + '.js', code);
  writeFileSync('dist/' + name + '.js.map', map);
}`;
const parcel = JSON.stringify({
  ...{ name: 'shop', type: 'module', source: 'src/main.ts', main: 'dist/main.cjs' },
  targets: {
    main: {
      context: 'node',
      outputFormat: 'commonjs',
      optimize: true,
      isLibrary: false,
      engines: { node: '>= 22' },
    },
  },
});
/** As people write it: CommonJS by tsc, legacy decorators and their metadata. */
const nest = {
  ...plainSources,
  'src/orders.ts': `import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
${plainSources['src/orders.ts']}`
    .replace('export class', '@Injectable()\nexport class')
    .replace('  async cancel(', "  @Reflect.metadata('role', 'clerk')\n  async cancel("),
  'package.json': '{"name":"shop"}',
  'tsconfig.json': tsconfig({
    ...{ module: 'commonjs', moduleResolution: 'node10', experimentalDecorators: true },
    emitDecoratorMetadata: true,
  }),
  'webpack.config.js': "module.exports = (options) => ({ ...options, devtool: 'source-map' });",
  'nest-cli.json': JSON.stringify({
    sourceRoot: 'src',
    compilerOptions: { builder: 'webpack', webpackConfigPath: 'webpack.config.js' },
  }),
};
/** What Nuxt builds its server with. The preset listens to nothing, so that the process ends. */
const nitro = {
  'nitro.config.mjs': `export default {
  preset: 'node', minify: true, sourceMap: true, compatibilityDate: '2026-01-01', logLevel: 1, srcDir: '.',
  plugins: ['./src/plugin.ts'], moduleSideEffects: [import.meta.dirname + '/src/'],
};`,
  'src/plugin.ts': "import './main.js';\nexport default () => {};",
  'routes/index.ts': 'export default defineEventHandler(() => 1);',
};

const builds: Readonly<Record<string, Build>> = {
  tsc: { main: 'dist/main.js', files: {}, run: ['typescript/bin/tsc'] },
  swc: { main: 'dist/main.js', files: { 'build.mjs': swc }, run: ['./build.mjs'] },
  'webpack, ts-loader': {
    main: 'dist/main.cjs',
    files: { 'webpack.config.cjs': webpack(tsLoader) },
    run: runWebpack,
  },
  'webpack, swc-loader': {
    main: 'dist/main.cjs',
    files: { 'webpack.config.cjs': webpack(swcLoader) },
    run: runWebpack,
  },
  'rollup, terser': {
    main: 'dist/main.mjs',
    files: { 'rollup.config.mjs': rollup },
    run: ['rollup/dist/bin/rollup', '-c'],
  },
  'Vite, SSR': {
    main: 'dist/main.js',
    files: { 'vite.config.mjs': vite },
    run: ['vite/bin/vite.js', 'build'],
  },
  'rolldown, ES module': {
    ...{ main: 'dist/main.js', run: runRolldown },
    files: { 'rolldown.config.mjs': rolldown({ dir: 'dist', format: 'esm' }) },
  },
  'rolldown, CommonJS': {
    ...{ main: 'dist/main.cjs', run: runRolldown },
    files: { 'rolldown.config.mjs': rolldown({ file: 'dist/main.cjs', format: 'cjs' }) },
  },
  Parcel: {
    main: 'dist/main.cjs',
    files: { 'package.json': parcel },
    run: ['parcel/lib/bin.js', 'build', '--no-cache'],
  },
  'NestJS, webpack': { main: 'dist/main.js', files: nest, run: ['@nestjs/cli/bin/nest.js', 'build'] },
  'Nitro, as Nuxt has it': {
    main: '.output/server/index.mjs',
    files: nitro,
    run: ['nitropack/dist/cli/index.mjs', 'build'],
  },
};

suite('capture by source map: compilers and bundlers', function () {
  this.timeout(300_000);
  let tools: string;
  before(() => {
    tools = join(installPacked('bundlers', packages), 'node_modules');
  });

  function build({ files, run: [program, ...args] }: Build, more: Record<string, string> = {}): string {
    const folder = writeApp({ ...sources, 'tsconfig.json': tsconfig(), ...files, ...more });
    symlinkSync(tools, join(folder, 'node_modules'));
    const path = program.startsWith('.') ? program : join(tools, program);
    const env = { ...process.env, NODE_ENV: 'production' };
    execFileSync(process.execPath, [path, ...args], { cwd: folder, env, stdio: 'pipe' });
    return folder;
  }

  for (const [title, own] of Object.entries(builds))
    it(title, () => {
      assertCaptured(runApp(build(own), targets, { main: own.main }));
    });

  it('rollup, terser: says what they inlined, and what they dropped', () => {
    const own = builds['rollup, terser'] as Build;
    const folder = build(own, {
      'src/small.ts': `export function same(value: string): string { return value; }
export function unused(): number { return 1; }
export function once(quantity: number): number { return quantity * Number(process.argv.length); }
export function kept(quantity: number): number {
  if (quantity < 0) throw new Error('none');
  return quantity + 1;
}
`,
      'src/main.ts':
        "import { kept, once, same } from './small.js'; console.log(same('x'), kept(1), kept(2), once(3));",
    });
    const idOf = (name: string) => `./src/small.ts#${name}`;
    const ids = ['same', 'unused', 'once', 'kept'].map(idOf);
    const { stdout, reports, calls } = runApp(folder, ids, { main: own.main });
    assert.match(stdout, /^x 2 3 6$/m);
    assert.deepEqual(calls, { [idOf('kept')]: 2 });
    const said = (name: string) => reports[idOf(name)]?.reason ?? reports[idOf(name)]?.notes.join() ?? '';
    for (const name of ['same', 'unused'])
      assert.match(
        said(name),
        /^inlined or dropped by the bundler: .*make it keep its functions \(terser, swc/,
      );
    assert.match(
      said('once'),
      /^inlined by the bundler \(line 1\): make it keep its functions \(terser, swc/,
    );
    assert.equal(said('kept'), 'in ./dist/main.mjs');
  });
});
