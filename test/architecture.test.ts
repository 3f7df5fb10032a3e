import assert from 'node:assert/strict';
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import ts from 'typescript';

// Reads the real imports, types included, and fails on a breach of the rules in docs/architecture.md.
const root = resolve(import.meta.dirname, '..');
const source = join(root, 'src');

/** The way of an event, with what stands below it and above it: a folder imports those before it. */
const folders = [
  'ground',
  'observe',
  'config',
  'context',
  'transaction',
  'capture',
  'envelope',
  'protect',
  'consumer',
  'serialize',
  'publish',
  'outbox',
  'pipeline',
  'consume',
  'adapters',
  'manage',
  'start',
  'catalog',
  'cli',
  'preload',
  'testing',
] as const;
/** What a package.json of an application can name. `register.ts`, the way in, lies at the top, beside package.json. */
const wayIn = '../register.ts';
const entries = [wayIn, 'consumer.ts', 'index.ts', 'instrumentation.ts', 'next.ts', 'testing.ts', 'vite.ts'];

interface Import {
  readonly from: string;
  readonly to: string;
  readonly typeOnly: boolean;
  readonly dynamic: boolean;
}

const files = [wayIn, ...readdirSync(source, { recursive: true, encoding: 'utf8' })]
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.split(sep).join('/'))
  .sort();
const isEntry = (file: string) => ['.', '..'].includes(dirname(file));

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
const placeOf = (file: string) => folders.indexOf(file.split('/')[0] as (typeof folders)[number]);
const isGround = (file: string) => /^(ground|observe)\//.test(file);
const textOf = (file: string) => readFileSync(join(source, file), 'utf8');
/** What stands on top in `publish/` and `outbox/`, what follows transactions, and the wire format of Avro is what their adapters need; a port elsewhere says that it is one. */
const isPort = (file: string) =>
  /^(publish\/[^/]+|transaction\/[^/]+|serialize\/avro\/[^/]+|outbox\/(outbox-row|insert-row|store-error)\.ts)$/.test(
    file,
  ) || textOf(file).includes('PORT:');
const list = (breaches: readonly Import[]) => breaches.map((one) => `${one.from} -> ${one.to}`);

describe('architecture', () => {
  it('reads a real tree', () => {
    assert.ok(files.length > 40, `only ${files.length} files found`);
    assert.ok(own.length > 80, `only ${own.length} imports found`);
  });

  it('has the folders that its document shows, and entries beside them', () => {
    const shown = readFileSync(join(root, 'docs/architecture.md'), 'utf8');
    const present = [...new Set(files.filter((file) => !isEntry(file)).map((file) => dirname(file)))];
    assert.deepEqual([...new Set(present.map((folder) => folder.split('/')[0]))].sort(), [...folders].sort());
    const unseen = present.filter((folder) => {
      const [name = ''] = folder.split('/').slice(-1);
      return !shown.includes(`${name}/`);
    });
    assert.deepEqual(unseen, []);
    assert.deepEqual(files.filter(isEntry), entries);
    assert.match(shown, /^register\.ts +\S/m);
  });

  it('names files in its document that are there', () => {
    const shown = readFileSync(join(root, 'docs/architecture.md'), 'utf8');
    const named = [...shown.matchAll(/`([\w./-]+\.ts)`/g)].map(([, name = '']) => name);
    assert.ok(named.length > 40, `only ${named.length} names found`);
    const isThere = (name: string) =>
      existsSync(join(root, name)) || files.some((file) => `/${file}`.endsWith(`/${name}`));
    const gone = named.filter((name) => !isThere(name));
    assert.deepEqual(gone, []);
  });

  it('says in one file of each folder, first of all, what the folder is for', () => {
    const present = Map.groupBy(
      files.filter((file) => !isEntry(file)),
      (file) => dirname(file),
    );
    const silent = [...present].filter(([folder, inside]) => {
      const name = folder.split('/').at(-1);
      return inside.filter((file) => textOf(file).startsWith(`// ${name}/: `)).length !== 1;
    });
    assert.deepEqual(
      silent.map(([folder]) => folder),
      [],
    );
  });

  it('imports look back along the way of an event only', () => {
    const forward = own.filter((one) => {
      const [from, to] = [placeOf(one.from), placeOf(one.to)];
      if (from < 0) return false;
      // The form of an envelope is what a target is made of: a type that capture shares with the next stage.
      if (one.typeOnly && one.to === 'envelope/envelope.ts') return false;
      return to < 0 || to > from;
    });
    assert.deepEqual(list(forward), []);
  });

  it('folders side by side import each other one way at most', () => {
    const folder = (file: string) => dirname(file);
    const ways = new Set(own.map((one) => `${folder(one.from)} -> ${folder(one.to)}`));
    const both = own.filter((one) => {
      const [from, to] = [folder(one.from), folder(one.to)];
      const isWithin = `${from}/`.startsWith(`${to}/`) || `${to}/`.startsWith(`${from}/`);
      return !isWithin && ways.has(`${to} -> ${from}`);
    });
    assert.deepEqual(list(both), []);
  });

  it('ground imports ground only', () => {
    const breaches = own.filter((one) => isGround(one.from) && !isGround(one.to));
    assert.deepEqual(list(breaches), []);
  });

  it('an adapter imports ground, ports and its vendor, never another adapter or the configuration', () => {
    const breaches = own.filter((one) => {
      if (!one.from.startsWith('adapters/')) return false;
      const folder = one.from.split('/').slice(0, 2).join('/');
      // What the clients of Kafka share, and what the databases share: no adapters themselves.
      const isShared =
        (one.to.startsWith('adapters/kafka/') && /^adapters\/(kafkajs|platformatic)\//.test(one.from)) ||
        (one.to.startsWith('adapters/sql/') && /^adapters\/(postgres|mysql|sqlite)\//.test(one.from));
      return !one.to.startsWith(`${folder}/`) && !isShared && !isGround(one.to) && !isPort(one.to);
    });
    assert.deepEqual(list(breaches), []);
  });

  it('only start/adapters.ts names adapters, lazily; start/drivers.ts names patches, testing.ts the one for tests', () => {
    const breaches = own.filter(
      (one) =>
        one.to.startsWith('adapters/') &&
        !one.from.startsWith('adapters/') &&
        !(one.from === 'start/adapters.ts' && (one.dynamic || one.typeOnly)) &&
        !(one.from === 'start/drivers.ts' && /-driver\.ts$|-at-once\.ts$|^adapters\/orms\//.test(one.to)) &&
        !(one.from === 'testing.ts' && one.to.startsWith('adapters/memory/')),
    );
    assert.deepEqual(list(breaches), []);
  });

  it('manage and cli never see the pipeline', () => {
    const breaches = own.filter(
      (one) =>
        /^(manage|cli)\//.test(one.from) &&
        /^(pipeline\/|publish\/|protect\/|serialize\/|envelope\/)/.test(one.to),
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
    const makers = files.filter((file) => /as (unknown as )?ProtectedEnvelope\b/.test(textOf(file)));
    assert.deepEqual(makers, ['protect/protect.ts']);
  });

  it("only ground/builtins.ts names Node's timers, which tests of an application replace", () => {
    const importers = all
      .filter(({ to }) => /^(node:)?timers(\/promises)?$/.test(to))
      .map(({ from }) => from);
    assert.deepEqual([...new Set(importers)], ['ground/builtins.ts']);
  });

  it('has one index, no default exports, no star exports, no grab-bags', () => {
    const names = files.filter((file) => /(^|\/)(index|utils?|helpers?|types)\.ts$/.test(file));
    assert.deepEqual(names, ['index.ts']);
    const bad = files.filter((file) =>
      /^export (default|\*)/m.test(readFileSync(join(source, file), 'utf8')),
    );
    assert.deepEqual(bad, []);
  });

  it('heavy vendors are loaded only when used', () => {
    const heavy = [
      '@opentelemetry/api',
      'kafkajs',
      '@platformatic/kafka',
      'oxc-parser',
      'js-yaml',
      'pg',
      'mysql2',
      'mysql2/promise',
      'better-sqlite3',
      'node:sqlite',
      'require-in-the-middle',
    ];
    const eager = all.filter((one) => heavy.includes(one.to) && !one.typeOnly && !one.dynamic);
    assert.deepEqual(list(eager), []);
    const serializer = own.filter(({ to }) => to === 'observe/prometheus.ts');
    assert.deepEqual(
      serializer.map(({ dynamic }) => dynamic),
      [true],
    );
  });

  it('has no literal with a Unicode class, which V8 would parse at each start: see lazyPattern', () => {
    const found = globSync('src/**/*.ts', { cwd: root }).flatMap((file) =>
      readFileSync(join(root, file), 'utf8')
        .split('\n')
        .filter((line) => /\\p\{(?!ID_)/.test(line) && !/String\.raw|^\s*\*/.test(line))
        .map((line) => `${file}: ${line.trim()}`),
    );
    assert.deepEqual(found, []);
  });

  it('has no more files, lines and names that others must know than it had: these figures only fall', () => {
    const max = {
      files: 218,
      lines: 75_482,
      namesWithOneImporter: 397,
      namesWithoutImporter: 85,
      filesWithOneImporter: 48,
      besideFaces: 123,
      levels: 2,
    };
    const over = Object.entries(measured()).filter(([name, value]) => value > max[name as keyof typeof max]);
    assert.deepEqual(over, []);
  });
});

/** How deep the modules are: what is hidden in a file or a folder, and what another one has to know. */
function measured() {
  const users = new Map<string, Set<string>>();
  const exported = new Map<string, string[]>();
  const use = (from: string, specifier: string, name: string): void => {
    if (!specifier.startsWith('.')) return;
    const to = relative(source, resolve(source, dirname(from), specifier))
      .split(sep)
      .join('/');
    const key = `${to}#${name}`;
    users.set(key, (users.get(key) ?? new Set()).add(from));
  };
  for (const file of files) {
    const tree = ts.createSourceFile(file, textOf(file), ts.ScriptTarget.Latest, true);
    exported.set(file, tree.statements.flatMap(exportedNames));
    for (const node of tree.statements) {
      const isImport = ts.isImportDeclaration(node);
      if (!isImport && !ts.isExportDeclaration(node)) continue;
      if (node.moduleSpecifier === undefined) continue;
      const bound = isImport ? node.importClause?.namedBindings : node.exportClause;
      const named = bound !== undefined && (ts.isNamedImports(bound) || ts.isNamedExports(bound));
      const names = named ? bound.elements.map((each) => (each.propertyName ?? each.name).text) : ['*'];
      for (const name of names) use(file, (node.moduleSpecifier as ts.StringLiteral).text, name);
    }
    for (const [, specifier = ''] of textOf(file).matchAll(
      /\b(?:import\(|(?:loadChunk|later)\([^,()]*,)\s*['"]([^'"]+)['"]/g,
    ))
      use(file, specifier, '*');
  }
  const importersOf = (file: string, names: readonly string[]): Set<string> =>
    new Set([...names, '*'].flatMap((name) => [...(users.get(`${file}#${name}`) ?? [])]));
  const inside = files.filter((file) => !isEntry(file));
  const all = new Map(inside.map((file) => [file, importersOf(file, exported.get(file) ?? [])]));
  const faces = inside.filter((file) =>
    [...(all.get(file) ?? [])].some((user) => dirname(user) !== dirname(file)),
  );
  const names = inside.flatMap((file) =>
    (exported.get(file) ?? []).map((name) => importersOf(file, [name]).size),
  );
  return {
    files: files.length,
    lines: files.reduce((sum, file) => sum + textOf(file).split('\n').length - 1, 0),
    namesWithOneImporter: names.filter((importers) => importers === 1).length,
    namesWithoutImporter: names.filter((importers) => importers === 0).length,
    filesWithOneImporter: [...all.values()].filter(({ size }) => size === 1).length,
    // A folder has one face: the one file of it that others import.
    besideFaces: faces.length - new Set(faces.map((file) => dirname(file))).size,
    levels: Math.max(...files.map((file) => file.split('/').length - 1)),
  };
}

function exportedNames(node: ts.Statement): string[] {
  if (!ts.canHaveModifiers(node)) return [];
  if (!ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) return [];
  if (ts.isVariableStatement(node))
    return node.declarationList.declarations.map((each) => each.name.getText());
  const { name } = node as { name?: ts.Identifier };
  return name === undefined ? [] : [name.text];
}
