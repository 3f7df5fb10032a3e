import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';

// Reads the real imports, types included, and fails on a breach of the rules in docs/architecture.md.
const root = resolve(import.meta.dirname, '..');
const source = join(root, 'src');

const stages = [
  'observe',
  'config',
  'context',
  'capture',
  'envelope',
  'protect',
  'consumer',
  'serialize',
  'publish',
  'outbox',
  'adapters',
  'manage',
  'cli',
] as const;
const ground = [
  'big-int-limit.ts',
  'field-rule.ts',
  'rule-path.ts',
  'key-text.ts',
  'supported-node.ts',
  'errors.ts',
  'builtins.ts',
  'clock.ts',
  'lifecycle.ts',
  'event-id.ts',
  'severity.ts',
  'edit-distance.ts',
  'event-headers.ts',
  'topic-name.ts',
  'bounded-json.ts',
  'ranges.ts',
  'folders.ts',
  'load-once.ts',
  'loopback.ts',
  'management.ts',
  'trusted-proxy.ts',
];

interface Import {
  readonly from: string;
  readonly to: string;
  readonly typeOnly: boolean;
  readonly dynamic: boolean;
}

const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.split(sep).join('/'))
  .sort();

function importsOf(file: string): Import[] {
  const text = readFileSync(join(source, file), 'utf8');
  const found: Import[] = [];
  const patterns: [RegExp, boolean][] = [
    [/^(?:import|export)\s+(type\s+)?(?:[^'"`;]*?\sfrom\s+)?['"]([^'"]+)['"]/gm, false],
    [/\b()import\(\s*['"]([^'"]+)['"]\s*\)/g, true],
  ];
  for (const [pattern, dynamic] of patterns) {
    for (const match of text.matchAll(pattern)) {
      const specifier = match[2] as string;
      const to = specifier.startsWith('.')
        ? relative(source, resolve(source, dirname(file), specifier))
            .split(sep)
            .join('/')
        : specifier;
      found.push({ from: file, to, typeOnly: Boolean(match[1]), dynamic });
    }
  }
  return found;
}

const all = files.flatMap(importsOf);
const own = all.filter((one) => one.to.endsWith('.ts'));
const stageOf = (file: string) => stages.indexOf(file.split('/')[0] as (typeof stages)[number]);
const isGround = (file: string) => ground.includes(file) || file.startsWith('observe/');
const list = (breaches: readonly Import[]) => breaches.map((one) => `${one.from} -> ${one.to}`);

describe('architecture', () => {
  it('reads a real tree', () => {
    assert.ok(files.length > 40, `only ${files.length} files found`);
    assert.ok(own.length > 80, `only ${own.length} imports found`);
  });

  it('knows the folder of every file', () => {
    const top = [
      'index.ts',
      'start.ts',
      'start-management.ts',
      'start-management-later.ts',
      'start-tiers.ts',
      'start-targets.ts',
      'start-recovery.ts',
      'start-settings.ts',
      'start-protection.ts',
      'start-ids.ts',
      'start-keys.ts',
      'start-decryption.ts',
      'pipeline.ts',
      'adapters.ts',
      'preload.ts',
      'inspect-broker.ts',
      'inspect-targets.ts',
      'not-started.ts',
      'process-end.ts',
      'worker-end.ts',
      'testing.ts',
      'version.ts',
      ...ground,
    ];
    const strangers = files.filter((file) => stageOf(file) < 0 && !top.includes(file));
    assert.deepEqual(strangers, []);
  });

  it('imports look back along the way of an event only', () => {
    const forward = own.filter((one) => {
      const [from, to] = [stageOf(one.from), stageOf(one.to)];
      // Adapters implement ports, `manage` and `cli` see their ports: the later rules say what these may import.
      if (from < 0 || to < 0 || isGround(one.to)) return false;
      // Envelope types are what a rule is made of: a type that capture shares with the next stage.
      if (one.typeOnly && one.to === 'envelope/envelope.ts') return false;
      return to > from;
    });
    assert.deepEqual(list(forward), []);
  });

  it('ground imports ground only', () => {
    const breaches = own.filter((one) => isGround(one.from) && !isGround(one.to));
    assert.deepEqual(list(breaches), []);
  });

  it('no stage imports the composition root', () => {
    const roots = [
      'start.ts',
      'start-management.ts',
      'start-management-later.ts',
      'start-tiers.ts',
      'start-targets.ts',
      'start-recovery.ts',
      'start-decryption.ts',
      'start-ids.ts',
      'start-keys.ts',
      'pipeline.ts',
      'adapters.ts',
      'preload.ts',
      'inspect-broker.ts',
      'inspect-targets.ts',
      'not-started.ts',
      'index.ts',
    ];
    const breaches = own.filter(
      (one) => stageOf(one.from) >= 0 && !one.from.startsWith('cli/') && roots.includes(one.to),
    );
    assert.deepEqual(list(breaches), []);
  });

  it('an adapter imports ground, ports and its vendor, never another adapter or the configuration', () => {
    const ports = [
      'envelope/worker-id-lease.ts',
      'publish/broker.ts',
      'publish/broker-access.ts',
      'publish/publisher.ts',
      'publish/backup.ts',
      'publish/stored-record.ts',
      'publish/limits.ts',
      'publish/recovery-source.ts',
      'publish/topic-reader.ts',
      'protect/key-provider.ts',
      'protect/key-provider-error.ts',
    ];
    const breaches = own.filter((one) => {
      if (!one.from.startsWith('adapters/')) return false;
      const folder = one.from.split('/').slice(0, 2).join('/');
      // What the clients of Kafka share, which is no adapter itself.
      const isShared =
        one.to.startsWith('adapters/kafka/') && /^adapters\/(kafkajs|platformatic)\//.test(one.from);
      return !one.to.startsWith(`${folder}/`) && !isShared && !isGround(one.to) && !ports.includes(one.to);
    });
    assert.deepEqual(list(breaches), []);
  });

  it('only adapters.ts names adapters, lazily; testing.ts knows the one for tests', () => {
    const breaches = own.filter(
      (one) =>
        one.to.startsWith('adapters/') &&
        !one.from.startsWith('adapters/') &&
        !(one.from === 'adapters.ts' && (one.dynamic || one.typeOnly)) &&
        !(one.from === 'testing.ts' && one.to.startsWith('adapters/memory/')),
    );
    assert.deepEqual(list(breaches), []);
  });

  it('manage and cli never see the pipeline', () => {
    const breaches = own.filter(
      (one) =>
        /^(manage|cli)\//.test(one.from) &&
        /^(pipeline\.ts|publish\/|protect\/|serialize\/|envelope\/)/.test(one.to),
    );
    assert.deepEqual(list(breaches), []);
  });

  it('has no cycles, types included', () => {
    const edges = new Map<string, string[]>();
    for (const one of own) edges.set(one.from, [...(edges.get(one.from) ?? []), one.to]);
    const done = new Set<string>();
    const cycles: string[] = [];
    const walk = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) {
        cycles.push([...path.slice(path.indexOf(file)), file].join(' -> '));
        return;
      }
      if (done.has(file)) return;
      for (const next of edges.get(file) ?? []) walk(next, [...path, file]);
      done.add(file);
    };
    for (const file of files) walk(file, []);
    assert.deepEqual(cycles, []);
  });

  it('only protect.ts makes a ProtectedEnvelope', () => {
    const makers = files.filter((file) =>
      /as (unknown as )?ProtectedEnvelope\b/.test(readFileSync(join(source, file), 'utf8')),
    );
    assert.deepEqual(makers, ['protect/protect.ts']);
  });

  it('has one index, no default exports, no star exports, no grab-bags', () => {
    const names = files.filter((file) => /(^|\/)(index|utils?|helpers?|types)\.ts$/.test(file));
    assert.deepEqual(names, ['index.ts']);
    const bad = files.filter((file) =>
      /^export (default|\*)/m.test(readFileSync(join(source, file), 'utf8')),
    );
    assert.deepEqual(bad, []);
  });

  it('keeps files small', () => {
    const long = files
      .map((file) => ({ file, lines: readFileSync(join(source, file), 'utf8').split('\n').length }))
      .filter(({ lines }) => lines > 301);
    assert.deepEqual(long, []);
  });

  it('heavy vendors are loaded only when used', () => {
    const heavy = [
      '@opentelemetry/api',
      'kafkajs',
      '@platformatic/kafka',
      'oxc-parser',
      'js-yaml',
      'import-in-the-middle',
      'require-in-the-middle',
    ];
    const eager = all.filter((one) => heavy.includes(one.to) && !one.typeOnly && !one.dynamic);
    assert.deepEqual(list(eager), []);
  });
});
