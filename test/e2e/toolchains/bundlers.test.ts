import { execFileSync } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { assertCaptured, sources, targets } from '../../capture/source/maps/shop-source.ts';
import { runApp, writeApp } from '../../capture/source/run-app.ts';
import { installPacked } from '../../support/packed.ts';
import { subject } from '../support/subject.ts';

const { version, otel, isMatrix } = await subject();
/** Once in the matrix: what is built does not depend on the Node. */
const suite = isMatrix && version.startsWith('26.') && otel === 3 ? describe : () => {};

/** Installed on demand, pinned: none of them is a dependency of this repository. */
const packages = {
  '@rollup/plugin-terser': '1.0.2',
  '@rollup/plugin-typescript': '12.3.1',
  '@swc/core': '1.16.20',
  rolldown: '1.3.2',
  rollup: '4.68.8',
  'swc-loader': '0.2.7',
  'ts-loader': '9.6.2',
  tslib: '2.9.1',
  typescript: '5.9.3',
  vite: '8.3.8',
  webpack: '5.112.2',
  'webpack-cli': '7.3.1',
};

const tsconfig = JSON.stringify({
  compilerOptions: {
    ...{ target: 'es2022', module: 'nodenext', moduleResolution: 'nodenext', sourceMap: true, strict: true },
    ...{ skipLibCheck: true, types: [], lib: ['es2023', 'dom'], rootDir: 'src', outDir: 'dist' },
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
  /** The program below node_modules, and its arguments. */
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

const builds: Readonly<Record<string, Build>> = {
  tsc: { main: 'dist/main.js', files: {}, run: ['typescript/bin/tsc'] },
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
};

suite('capture by source map: compilers and bundlers', function () {
  this.timeout(300_000);
  let tools: string;
  before(() => {
    tools = join(installPacked('bundlers', packages), 'node_modules');
  });

  for (const [title, { main, files, run }] of Object.entries(builds)) {
    it(title, () => {
      const folder = writeApp({ ...sources, 'tsconfig.json': tsconfig, ...files });
      symlinkSync(tools, join(folder, 'node_modules'));
      const [program, ...args] = run;
      const env = { ...process.env, NODE_ENV: 'production' };
      execFileSync(process.execPath, [join(tools, program), ...args], { cwd: folder, env, stdio: 'pipe' });
      assertCaptured(runApp(folder, targets, { main }));
    });
  }
});
