import { resolve } from 'node:path';
import { defineConfig, type UserConfig } from 'tsdown';
import { consoleFiles } from './scripts/build-console.ts';
import { thirdPartyNotices, withoutApi } from './scripts/bundled-packages.ts';
import { writeOptionTypes } from './scripts/config-types.ts';

writeOptionTypes();

/** svc's own work goes on while an application fakes its timers. */
const builtins = resolve('src/ground/builtins.ts');
const ownTimers = Object.fromEntries(
  Object.keys(await import('./src/ground/builtins.ts'))
    .filter((name) => name in globalThis)
    .map((name): [string, [string, string]] => [name, [builtins, name]]),
);

/** What applications import, as ESM and as CJS. State that must be single per process sits behind `Symbol.for('svc')`. */
const publicEntries = {
  index: 'src/index.ts',
  register: 'register.ts',
  testing: 'src/testing.ts',
  consumer: 'src/consumer.ts',
  instrumentation: 'src/instrumentation.ts',
  next: 'src/next.ts',
  vite: 'src/vite.ts',
  'adapters/aws-kms': 'src/adapters/aws-kms/aws-kms-key-provider.ts',
  'adapters/vault': 'src/adapters/vault/vault-key-provider.ts',
  'adapters/avro': 'src/adapters/schema-registry/avro-reader.ts',
};

const shared: UserConfig = {
  tsconfig: 'tsconfig.build.json',
  outDir: 'dist',
  target: 'node22.15',
  platform: 'node',
  // Of these only: a chunk that another entry needs would take the names of a public one.
  dts: { entry: Object.values(publicEntries) },
  hash: false,
  fixedExtension: true,
  shims: true,
  // On its own: else it lands in a chunk that `register` must not load, before it knows its Node and whether svc is on.
  outputOptions: { codeSplitting: { groups: [{ name: 'runtime', test: /rolldown[\\/]runtime/ }] } },
  clean: false,
  plugins: [withoutApi, thirdPartyNotices],
  inputOptions: { transform: { inject: ownTimers } },
};

/**
 * Each file costs Node 0.3 to 0.5 ms at the start of a process, so files that load together share a chunk. Chunks of many entries come
 * first; test/public-api.test.ts fails if an entry loads more than it should.
 */
const chunks: readonly (readonly [name: string, files: RegExp])[] = [
  // Separate: in a large chunk, each entry would load that chunk, and `register` would load it before it checks Node's version.
  ['runtime', /rolldown\/runtime/],
  ['version', /src\/ground\/version\./],
  // Without what loads node:http, for those who ask a service.
  ['ground', /src\/ground\/(?!http\.)/],
  // What `svc init` asks with, and nothing else.
  ['prompts', /node_modules\/(?:@clack|sisteransi|fast-(?:string|wrap))/],
  [
    'state',
    /src\/(?:observe\/(?:logger|thread-counts|otel-api|outcomes|spans)\.|capture\/(?:declare\/declarations|report)\.|context\/(?:context-store|request|source)\.|(?:outbox\/api\/running-outbox|publish\/api\/publish)\.|protect\/keys\/key-provider\.|transaction\/(?:driver|transaction)\.)/,
  ],
  ['config', /src\/config\/(?!define-config)/],
  // What a consumer, publishEvent() and the running svc share.
  [
    'ports',
    /src\/(?:publish\/(?:[^/]+$|api\/(?:check-options|caller-wait)|main\/cluster-state\.|tiers\/dlq-message)|serialize\/serializer\.|protect\/(?:mask\.|marks\/policy\.|own-text)|ground\/bounds\.)/,
  ],
  // What reads and writes protected fields.
  ['keys', /src\/protect\/keys\/key-(?:cache|ring)\./],
  ['file', /src\/adapters\/file\/file-broker\./],
  ['backup', /src\/adapters\/local-backup\/(?!local-backup\.|local-source)/],
  ['wrap', /src\/capture\/(?:wrap\/wrap\.|declare\/parameter-names)/],
  [
    'prepare',
    /src\/capture\/(?:target-record|compiled-from|wrap\/wrap-property|source\/(?:capture-runtime|node-hooks|parse-text|late-start|insert-calls|target-files|function-path|resolve-specifier|listed-places)\.)/,
  ],
  [
    'engine',
    /src\/(?:start\/(?:management-later|serde|adapters|settings)|publish\/main\/queue|observe\/metrics|envelope\/ids)\./,
  ],
];
const groups = chunks.map(([name, files], index) => ({
  name,
  // Declarations have chunks of their own: in one of these they would be lost.
  test: (id: string) => !/\.d\.[cm]?ts$/.test(id) && files.test(id.replaceAll('\\', '/')),
  priority: chunks.length - index,
}));

export default defineConfig([
  {
    ...shared,
    format: 'esm',
    // `loader`: what `module.register` runs in its own thread, where Node has no sound synchronous hooks.
    entry: { ...publicEntries, loader: 'src/capture/source/loader-thread.ts' },
  },
  {
    ...shared,
    format: 'cjs',
    checks: { legacyCjs: false },
    outputOptions: {
      codeSplitting: { groups },
      // Docstrings stand in the types; a start would read them.
      comments: { jsdoc: false },
      // As in the sources. In sloppy mode a wrapper called without `this` would hand the global object on.
      strict: true,
    },
    // What `register`, `preload`, the command line and the end of a process load with one synchronous `require`.
    entry: {
      ...publicEntries,
      preload: 'src/preload/preload.ts',
      control: 'src/preload/instrumentation/control.ts',
      start: 'src/start/start.ts',
      prepare: 'src/capture/prepare.ts',
      drivers: 'src/start/drivers.ts',
      engine: 'src/start/engine.ts',
      outbox: 'src/outbox/outbox.ts',
      avro: 'src/serialize/avro/avro.ts',
      cloudevents: 'src/serialize/cloudevents.ts',
      recover: 'src/publish/recovery/recover.ts',
      'node-sdk': 'src/preload/sdk/node-sdk.ts',
      'rewrite-text': 'src/capture/source/rewrite-text.ts',
      'compiled-from': 'src/capture/source/compiled-from.ts',
      hook: 'src/capture/packages/hook.ts',
      outline: 'src/capture/source/outline.ts',
      compile: 'src/capture/expression/compile.ts',
      'create-sealer': 'src/protect/keys/create-sealer.ts',
      'follow-export': 'src/capture/source/follow-export.ts',
      'rewrite-mapped': 'src/capture/source/rewrite-mapped.ts',
      bundlers: 'src/capture/bundlers.ts',
      inspect: 'src/capture/inspect.ts',
      cli: 'src/cli/main.ts',
      'local-backup': 'src/adapters/local-backup/local-backup.ts',
    },
  },
  {
    // The page of the management server: what a browser loads.
    ...shared,
    entry: { 'console/console': 'console/main.tsx' },
    tsconfig: 'console/tsconfig.json',
    format: 'esm',
    platform: 'browser',
    target: 'es2023',
    dts: false,
    fixedExtension: false,
    minify: true,
    outputOptions: {},
    inputOptions: {},
    plugins: [consoleFiles, thirdPartyNotices],
  },
]);
