import { defineConfig, type UserConfig } from 'tsdown';

const shared: UserConfig = {
  outDir: 'dist',
  target: 'node22.15',
  platform: 'node',
  dts: true,
  hash: false,
  fixedExtension: true,
  shims: true,
  // On its own: else it lands in a chunk that `register` must not load, before it knows its Node and whether svc is on.
  outputOptions: { codeSplitting: { groups: [{ name: 'runtime', test: /rolldown[\\/]runtime/ }] } },
  clean: false,
};

/** What applications import, as ESM and as CJS. State that must be single per process sits behind `Symbol.for('svc')`. */
const publicEntries = {
  index: 'src/index.ts',
  register: 'src/register.ts',
  testing: 'src/testing.ts',
  consumer: 'src/consumer.ts',
  'adapters/aws-kms': 'src/adapters/aws-kms/aws-kms-key-provider.ts',
  'adapters/vault': 'src/adapters/vault/vault-key-provider.ts',
};

/**
 * Each file costs Node half a millisecond at the start of a process: what is loaded together stands together. In the order of
 * the imports, and with what a part imports, so that none loads more than it needs.
 */
const groups = [
  // On their own: else they stand in a large chunk, which every entry would then load, `register` before it knows its Node.
  { name: 'runtime', test: /rolldown[\\/]runtime/, priority: 5 },
  { name: 'version', test: /src[\\/]ground[\\/]version/, priority: 5 },
  { name: 'ground', test: /src[\\/]ground[\\/]/, priority: 4 },
  {
    name: 'state',
    test: /src[\\/](?:observe[\\/](?:own-logger|otel-api|outcomes|histogram)|capture[\\/]declare[\\/]declarations|context[\\/]request[\\/]header-value|publish[\\/]api[\\/]running-service)\.ts/,
    priority: 3,
  },
  { name: 'config', test: /src[\\/]config[\\/](?!define-config)/, priority: 2 },
  { name: 'ports', test: /src[\\/]publish[\\/][^\\/]+$/, priority: 1 },
];

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
      // As in the sources. In sloppy mode a wrapper called without `this` would hand the global object on.
      strict: true,
    },
    // What `register`, `preload`, the command line and the end of a process load with one synchronous `require`.
    entry: {
      ...publicEntries,
      preload: 'src/preload/preload.ts',
      start: 'src/start/start.ts',
      prepare: 'src/capture/prepare.ts',
      engine: 'src/start/engine.ts',
      'rewrite-text': 'src/capture/source/rewrite-text.ts',
      'inspect-targets': 'src/start/inspect-targets.ts',
      cli: 'src/cli/main.ts',
      'local-backup': 'src/adapters/local-backup/local-backup.ts',
    },
  },
]);
