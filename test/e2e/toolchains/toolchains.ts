import type { Toolchain } from './toolchain.ts';

const svc = 'svc/register';
const source = (name: string) => `./src/${name}.ts`;
const output = (name: string) => `./dist/${name}.js`;

/** `hook` and svc in both orders, both with the same flag. */
function bothOrders(flag: '--import' | '--require', hook: string): Pick<Toolchain, 'bare' | 'ways'> {
  return {
    bare: [flag, hook],
    ways: {
      [`${flag}, svc after`]: [flag, hook, flag, svc],
      [`${flag}, svc before`]: [flag, svc, flag, hook],
    },
  };
}

const compiled = {
  file: output,
  bare: [],
  ways: { '--import': ['--import', svc], '--require': ['--require', svc] },
} as const;

/** Where hooks are not sound a required preload captures CommonJS only. */
const needsImport: NonNullable<Toolchain['unreachable']> = ({ hasSoundSyncHooks }, way) =>
  hasSoundSyncHooks || !way.startsWith('--require')
    ? undefined
    : /with --require, Node [\d.]+ captures CommonJS only/;

const esbuild = (options: object) => `require('esbuild').buildSync(${JSON.stringify(options)});`;
const files = ['src/here.ts', 'src/orders.ts', 'src/main.ts'];
const bundle = {
  entryPoints: ['src/main.ts'],
  bundle: true,
  platform: 'node',
  target: 'node22',
  external: ['svc', 'reflect-metadata'],
};
const tsc = `require('node:child_process').execFileSync(process.execPath, [require.resolve('typescript/bin/tsc'), '-p', '.'], { stdio: 'inherit' });`;
const swc = (module: string, decorators: object) => `const { mkdirSync, writeFileSync } = require('node:fs');
const { transformFileSync } = require('@swc/core');
mkdirSync('dist', { recursive: true });
for (const name of ['here', 'orders', 'main']) {
  const { code } = transformFileSync('src/' + name + '.ts', {
    swcrc: false,
    module: { type: '${module}' },
    jsc: { target: 'es2022', parser: { syntax: 'typescript', decorators: true }, transform: ${JSON.stringify(decorators)} },
  });
  writeFileSync('dist/' + name + '.js', code);
}`;
const legacyDecorators = { legacyDecorator: true, decoratorMetadata: true };

/** Loaders that compile while the application runs. */
const loaders: readonly Toolchain[] = [
  {
    id: 'tsx-esm',
    isEveryday: true,
    title: 'tsx, ES modules',
    app: 'esm',
    file: source,
    ...bothOrders('--import', 'tsx'),
  },
  {
    id: 'tsx-cjs',
    isEveryday: true,
    title: 'tsx, CommonJS with legacy decorators and an enum',
    app: 'cjs',
    file: source,
    ...bothOrders('--import', 'tsx'),
  },
  {
    id: 'ts-node',
    title: 'ts-node, CommonJS (`--require ts-node/register`)',
    app: 'cjs',
    file: source,
    env: { TS_NODE_TRANSPILE_ONLY: 'true' },
    ...bothOrders('--require', 'ts-node/register'),
  },
  {
    id: 'swc-node',
    title: '@swc-node/register, CommonJS (`--require @swc-node/register`)',
    app: 'cjs',
    file: source,
    ...bothOrders('--require', '@swc-node/register'),
  },
  {
    id: 'esbuild-register',
    title: 'esbuild-register, CommonJS (`--require esbuild-register`)',
    app: 'cjs',
    file: source,
    ...bothOrders('--require', 'esbuild-register'),
  },
  {
    id: 'swc-node-esm',
    title: '@swc-node/register, ES modules (`--import @swc-node/register/esm-register`)',
    app: 'esm',
    compilerOptions: { experimentalDecorators: true, sourceMap: true },
    decorators: 'legacy',
    file: source,
    // Without both its stacks have the lines of what swc printed.
    env: { NODE_OPTIONS: '--enable-source-maps' },
    lines: /^orders\.ts:(1[0-9]|2[0-9]|3[0-9])$/,
    ...bothOrders('--import', '@swc-node/register/esm-register'),
  },
];

/** What compilers and bundlers wrote. */
const builds: readonly Toolchain[] = [
  {
    id: 'tsc-esm',
    isEveryday: true,
    title: 'Output of tsc, ES modules with TC39 decorators',
    app: 'esm',
    build: tsc,
    unreachable: needsImport,
    ...compiled,
  },
  {
    id: 'tsc-cjs',
    isEveryday: true,
    title: 'Output of tsc, CommonJS with legacy decorators',
    app: 'cjs',
    build: tsc,
    ...compiled,
  },
  {
    id: 'swc-esm',
    title: 'Output of swc, ES modules with TC39 decorators',
    app: 'esm',
    build: swc('es6', { decoratorVersion: '2022-03' }),
    unreachable: needsImport,
    ...compiled,
  },
  {
    id: 'swc-cjs',
    title: 'Output of swc, CommonJS with legacy decorators',
    app: 'cjs',
    build: swc('commonjs', legacyDecorators),
    ...compiled,
  },
  {
    id: 'esbuild-esm',
    title: 'Output of esbuild, ES modules with TC39 decorators',
    app: 'esm',
    build: esbuild({ entryPoints: files, outdir: 'dist', format: 'esm', target: 'node22' }),
    unreachable: needsImport,
    ...compiled,
  },
  {
    id: 'esbuild-cjs',
    title: 'Output of esbuild, CommonJS with legacy decorators',
    app: 'cjs',
    build: esbuild({ entryPoints: files, outdir: 'dist', format: 'cjs', target: 'node22' }),
    ...compiled,
  },
  {
    id: 'bundle-esm',
    isEveryday: true,
    title: 'Bundle of esbuild, one ES module',
    app: 'esm',
    build: esbuild({ ...bundle, format: 'esm', outfile: 'dist/bundle.js' }),
    unreachable: needsImport,
    ...compiled,
    file: () => './dist/bundle.js',
  },
  {
    id: 'bundle-cjs',
    isEveryday: true,
    title: 'Bundle of esbuild, one CommonJS file',
    app: 'cjs',
    build: esbuild({ ...bundle, format: 'cjs', outfile: 'dist/bundle.js' }),
    ...compiled,
    file: () => './dist/bundle.js',
  },
  {
    id: 'bundle-minified',
    title: 'Minified bundle that keeps identifiers (`--minify-whitespace --minify-syntax`)',
    app: 'cjs',
    build: esbuild({
      ...bundle,
      format: 'cjs',
      outfile: 'dist/bundle.js',
      minifyWhitespace: true,
      minifySyntax: true,
    }),
    ...compiled,
    file: () => './dist/bundle.js',
  },
  ...(['inline', 'linked'] as const).map(
    (sourcemap): Toolchain => ({
      id: `bundle-source-map-${sourcemap}`,
      title: `Minified bundle with a source map, ${sourcemap === 'inline' ? 'in the file' : 'beside it'} (\`--enable-source-maps\`): stacks have the lines of the source`,
      app: 'cjs',
      build: esbuild({
        ...bundle,
        format: 'cjs',
        outfile: 'dist/bundle.js',
        minifyWhitespace: true,
        minifySyntax: true,
        sourcemap,
      }),
      file: () => './dist/bundle.js',
      bare: ['--enable-source-maps'],
      lines: /^orders\.ts:\d+$/,
      ways: {
        '--import': ['--enable-source-maps', '--import', svc],
        '--require': ['--enable-source-maps', '--require', svc],
      },
    }),
  ),
  {
    id: 'bundle-minified-names',
    title:
      'Minified bundle without names and without a source map: `@PublishEvent` and `publishEvent()` only',
    app: 'cjs',
    build: esbuild({ ...bundle, format: 'cjs', outfile: 'dist/bundle.js', minify: true }),
    ...compiled,
    file: () => './dist/bundle.js',
    events: { declared: 2, 'declared static': 1, 'not this one': 1 },
    says: /bundle\.js#OrderService\.prototype\.create is not captured: .* it is minified/,
  },
];

/** Every toolchain is a row of the table in docs/internals/capture.md. */
export const toolchains: readonly Toolchain[] = [...loaders, ...builds];
