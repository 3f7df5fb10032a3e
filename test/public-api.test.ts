import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

interface Names {
  readonly values: readonly string[];
  readonly types: readonly string[];
}

// What the built package exports, name by name. A change here is a change for every user: it belongs into the changelog.
const entries: Readonly<Record<string, Names>> = {
  '.': {
    values: [
      'PiiField',
      'PublishEvent',
      'SvcError',
      'defineConfig',
      'flush',
      'invalidateEncryptionKeys',
      'onEventLost',
      'outbox',
      'publish',
      'publishEvent',
      'registerBackupStrategy',
      'registerBroker',
      'registerKeyProvider',
      'registerMasker',
      'registerS3Client',
      'runWithContext',
      'setContext',
      'setLogger',
      'version',
    ],
    types: [
      'BackupEvent',
      'Broker',
      'BrokerFactory',
      'BrokerRecord',
      'BrokerTraffic',
      'ClusterInfo',
      'ContextValues',
      'CurrentTransaction',
      'DataKey',
      'EnvelopeKeyProvider',
      'ErrorCode',
      'EventBackupStrategy',
      'KeyProvider',
      'LineFields',
      'LostEvent',
      'LostEventListener',
      'Masker',
      'Outbox',
      'OutboxDataSource',
      'OutboxEvent',
      'OutboxExecutor',
      'OutboxPort',
      'Outcome',
      'OwnBrokerSettings',
      'OwnS3Client',
      'Phase',
      'PiiFieldDecorator',
      'PiiFieldOptions',
      'PiiLevel',
      'PiiRules',
      'PiiStrategy',
      'PiiType',
      'PinoLogger',
      'Producer',
      'PublishEventOptions',
      'PublishOptions',
      'Published',
      'RuleParts',
      'Selector',
      'SendFailure',
      'SendFailureKind',
      'SendResult',
      'Severity',
      'StaticKeyProvider',
      'SvcConfig',
      'SvcLogger',
      'SvcTarget',
      'TransactionOf',
    ],
  },
  './register': { values: [], types: [] },
  './testing': {
    values: [
      'assertNothingPublished',
      'assertNothingStored',
      'assertPublished',
      'assertRolledBack',
      'assertStored',
      'brokerContract',
      'clear',
      'events',
      'outboxEvents',
      'records',
      'topics',
      'waitFor',
      'waitForStored',
    ],
    types: [
      'BrokerUnderTest',
      'ContractCase',
      'ContractRecord',
      'EventMatch',
      'PublishedEvent',
      'PublishedRecord',
      'StoredEvent',
      'StoredMatch',
      'StoredState',
      'WaitForOptions',
      'WaitForStoredOptions',
    ],
  },
  './consumer': {
    values: [
      'RefusedEvent',
      'consumeOnce',
      'createDecryptionKeys',
      'createInbox',
      'createStaticKeyProvider',
      'decryptBatch',
      'decryptFields',
      'readEnvelope',
      'tryDecryptFields',
    ],
    types: [
      'BatchResult',
      'CipherPlace',
      'ConfiguredKey',
      'ConsumeOptions',
      'ConsumedEvent',
      'ConsumedRecord',
      'Consumption',
      'DataKey',
      'DeadLetterOptions',
      'DecryptFailure',
      'DecryptOptions',
      'DecryptResult',
      'DecryptionKeyOptions',
      'DecryptionKeys',
      'EnvelopeKeyProvider',
      'EventCalls',
      'EventHandler',
      'EventHandlers',
      'EventInfo',
      'EventRecord',
      'FieldChoice',
      'Inbox',
      'InboxEvent',
      'InboxOnce',
      'InboxOptions',
      'InboxStore',
      'InboxTransaction',
      'KeyCacheOptions',
      'KeyProvider',
      'OnceResult',
      'StaticKeyProvider',
      'Upcast',
      'Upcasts',
    ],
  },
  './instrumentation': { values: ['SvcInstrumentation'], types: ['SvcInstrumentationConfig'] },
  './next': { values: ['withSvc'], types: [] },
  './vite': { values: ['svc'], types: [] },
  './aws-kms': { values: ['createAwsKmsKeyProvider'], types: ['AwsKmsOptions'] },
  './avro': {
    values: ['createAvroReader'],
    types: ['AvroReader', 'AvroReaderOptions', 'SchemaRegistryOptions'],
  },
  './vault': { values: ['createVaultKeyProvider'], types: ['VaultKeyProviderOptions'] },
};

const root = resolve(import.meta.dirname, '..');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, Record<'import' | 'require', { types: string; default: string }>>;
};

describe('public API', () => {
  it('has these entries, and no others', () => {
    const files = ['./svc.config.schema.json', './package.json'];
    assert.deepEqual(Object.keys(manifest.exports).sort(), [...Object.keys(entries), ...files].sort());
    for (const file of files) assert.equal(manifest.exports[file], file);
  });

  for (const [subpath, { values, types }] of Object.entries(entries)) {
    it(`${subpath}: the same names as ES module, as CommonJS and in the types`, async () => {
      const entry = manifest.exports[subpath];
      assert.ok(entry);
      for (const { types: file } of [entry.import, entry.require]) {
        assert.deepEqual(declaredNames(join(root, file)), [...values, ...types].sort(), file);
      }
      if (subpath === './register') return; // It starts svc: test/e2e loads it in processes of its own.
      const imported = await import(pathToFileURL(join(root, entry.import.default)).href);
      const required = createRequire(import.meta.url)(join(root, entry.require.default));
      assert.deepEqual(Object.keys(imported).sort(), values);
      assert.deepEqual(Object.keys(required).sort(), values);
    });
  }
});

describe('what the built package loads', () => {
  // By these a process with svc would start slower, and an application that only imports a part of svc.
  const later = /^(?:engine|node-sdk|prepare|rewrite-text|cli|prompts|prometheus)\d*\.cjs$/;

  it('`register` loads nothing before it knows its Node and whether svc is on', () => {
    assert.deepEqual(loadedBy('register.cjs').sort(), [
      'register.cjs',
      'rolldown-runtime.cjs',
      'version.cjs',
    ]);
  });

  it('a start loads neither what publishes, nor what finds functions, nor what starts an SDK', () => {
    const loaded = [...loadedBy('preload.cjs'), ...loadedBy('start.cjs')];
    assert.ok(loaded.includes('config.cjs'));
    assert.deepEqual(
      loaded.filter((file) => later.test(file)),
      [],
    );
  });

  it('what publishes loads no keys before a rule encrypts or hashes', () => {
    const loaded = loadedBy('engine.cjs');
    assert.ok(existsSync(join(root, 'dist', 'keys.cjs')));
    assert.ok(!loaded.includes('keys.cjs'), loaded.join(' '));
  });

  it('`register` and a start load nothing of the instrumentation', () => {
    for (const file of ['register.cjs', 'preload.cjs', 'start.cjs', 'engine.cjs'])
      assert.deepEqual(
        loadedBy(file).filter((each) => /^(?:control|instrumentation)/.test(each)),
        [],
      );
  });

  for (const [subpath, entry] of Object.entries(manifest.exports)) {
    if (entry.require === undefined) continue;
    it(`${subpath} loads nothing of the running svc`, () => {
      const loaded = loadedBy(entry.require.default.replace('./dist/', ''));
      assert.deepEqual(
        loaded.filter((file) => later.test(file) || file === 'config.cjs' || file === 'start.cjs'),
        [],
      );
    });
  }

  it('what writes /metrics stands in one file, which needs no package and loads nothing that a scrape has not loaded', () => {
    const serializing = readdirSync(join(root, 'dist')).filter(
      (file) =>
        /\.[cm]js$/.test(file) && readFileSync(join(root, 'dist', file), 'utf8').includes('le: upperBound'),
    );
    assert.deepEqual(serializing, ['prometheus.cjs']);
    const text = readFileSync(join(root, 'dist', 'prometheus.cjs'), 'utf8');
    assert.ok(text.length < 25_000, `${text.length} characters`);
    const needed = [...text.matchAll(/\b(?:require|import)\("([^"]+)"\)/g)].map(([, name = '']) => name);
    const parts = ['register.cjs', 'start.cjs', 'engine.cjs', 'management.cjs'];
    const loaded = parts.flatMap((file) => loadedBy(file)).map((file) => `./${file}`);
    assert.deepEqual(
      needed.filter((name) => !loaded.includes(name) && !name.startsWith('node:')),
      [],
    );
  });

  it('names the licence of each package of which it has a part', () => {
    const files = readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' });
    const packages = files.flatMap((file) => {
      // Shortened: its packages are no more to be seen.
      if (/^console\W/.test(file)) return ['preact', '@preact/signals', '@preact/signals-core', 'uplot'];
      if (!/\.[cm]js$/.test(file)) return [];
      const text = readFileSync(join(root, 'dist', file), 'utf8');
      return [...text.matchAll(/^\/\/#region .*node_modules\/((?:@[^/]+\/)?[^/]+)\//gm)].map(
        ([, name]) => name,
      );
    });
    const notices = readFileSync(join(root, 'dist', 'THIRD-PARTY-NOTICES.txt'), 'utf8');
    const named = [...notices.matchAll(/^(\S+) \d\S* \((?:Apache-2\.0|MIT)\)(?:, by \w|$)/gm)].map(
      ([, name]) => name,
    );
    assert.ok(packages.includes('@opentelemetry/exporter-prometheus'));
    assert.deepEqual([...new Set(named)].sort(), [...new Set(packages)].sort());
    assert.match(notices, /Apache License\s+Version 2\.0/);
  });

  it('has the parser of the command line in the command line alone', () => {
    const files = readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' });
    const having = files.filter(
      (file) =>
        /\.[cm]js$/.test(file) &&
        readFileSync(join(root, 'dist', file), 'utf8').includes('node_modules/commander/'),
    );
    assert.deepEqual(having, ['cli.cjs']);
  });

  it('has a file for each part that is loaded later', () => {
    const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
    const parts = sources.flatMap((file) => {
      if (!file.endsWith('.ts')) return [];
      const text = readFileSync(join(root, 'src', file), 'utf8');
      return [...text.matchAll(/loadChunk\(import\.meta\.url, '([^']+)'\)/g)].map(([, to = '']) =>
        join(dirname(file), to),
      );
    });
    assert.ok(parts.length > 3);
    for (const part of parts) {
      assert.ok(existsSync(join(root, 'src', part)), part);
      assert.ok(existsSync(join(root, 'dist', `${basename(part, '.ts')}.cjs`)), part);
    }
  });
});

describe('the packages beside which svc can be installed', () => {
  it('have ranges with an upper end: of a later one nobody knows how it is built', () => {
    const { peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      peerDependencies: Record<string, string>;
    };
    const open = Object.entries(peerDependencies).filter(([, range]) => !/^[\^~]|<\d/.test(range));
    assert.deepEqual(open, []);
  });
});

/** Files of `dist` that a file loads as it is loaded, itself among them. */
function loadedBy(file: string, loaded: string[] = []): string[] {
  if (loaded.includes(file)) return loaded;
  loaded.push(file);
  const text = readFileSync(join(root, 'dist', file), 'utf8');
  for (const [, to = ''] of text.matchAll(/^(?:const \w+ = )?require\("(\.[^"]+)"\)/gm)) {
    loadedBy(join(dirname(file), to), loaded);
  }
  return loaded;
}

/** Names of the export list at the end of a bundled declaration file. */
function declaredNames(file: string): string[] {
  const list = /^export \{([^}]*)\};?\s*$/m.exec(readFileSync(file, 'utf8'))?.[1] ?? '';
  return list
    .split(',')
    .map((name) =>
      name
        .trim()
        .replace(/^type /, '')
        .replace(/^.* as /, ''),
    )
    .filter((name) => name !== '')
    .sort();
}
