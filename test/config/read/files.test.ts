import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type LoadedConfig, loadConfig } from '../../../src/config/read/load.ts';
import { folderWith, lines, loadYaml, removeFolders } from '../config-folder.ts';

const object = `{ "svc": { "broker": { "topic": "orders", "maxInFlight": 5 } } }`;

function load(files: Record<string, string>, env: Record<string, string> = {}): LoadedConfig {
  return loadConfig({ cwd: folderWith(files), env });
}

function only(loaded: LoadedConfig): string {
  assert.equal(loaded.found, true);
  assert.equal(loaded.problems.length, 1, lines(loaded.problems).join('\n'));
  return lines(loaded.problems)[0] ?? '';
}

describe('configuration files', () => {
  afterEach(removeFolders);

  const good: Record<string, string> = {
    'svc.config.yaml': 'svc:\n  broker:\n    topic: orders\n    max-in-flight: 5\n',
    'svc.config.yml': '\uFEFF# comment\nsvc: { broker: { <<: { topic: orders }, maxInFlight: 5 } }',
    'svc.config.json': `\uFEFF${object}`,
    'svc.config.mjs': `export default ${object}`,
    'svc.config.ts': `type A = { svc: unknown }; const config: A = ${object}; export default config;`,
  };
  for (const [name, content] of Object.entries(good)) {
    it(`reads ${name}`, () => {
      const cwd = folderWith({ [name]: content });
      const { config, problems, warnings } = loadConfig({ cwd, env: {} });
      assert.deepEqual([lines(problems), lines(warnings)], [[], []]);
      assert.deepEqual(
        [config.broker.topic, config.broker.maxInFlight, config.file],
        ['orders', 5, join(cwd, name)],
      );
    });
  }

  for (const [name, content] of [
    ['a.js', `module.exports = ${object}`],
    ['a.cjs', `module.exports = ${object}`],
    ['a.mts', `export default ${object} as object`],
    ['a.cts', `module.exports = ${object} as object`],
    ['A.YAML', 'svc: { broker: { topic: orders, maxInFlight: 5 } }'],
  ] as const) {
    it(`reads ${name} where SVC_CONFIG names it`, () => {
      const { config, problems } = load({ [name]: content }, { SVC_CONFIG: name });
      assert.deepEqual([lines(problems), config.broker.maxInFlight], [[], 5]);
    });
  }

  it('is found in the nearest folder above, within the project', () => {
    const root = folderWith({
      'svc.config.yaml': 'svc.broker.topic: far',
      'a/package.json': '{ "name": "a" }',
      'a/svc.config.json': object,
      'a/b/c/keep': '',
    });
    assert.equal(
      loadConfig({ cwd: join(root, 'a/b/c'), env: {} }).config.file,
      join(root, 'a/svc.config.json'),
    );
  });

  it('is the one that SVC_CONFIG names, in any folder', () => {
    const other = folderWith({ 'conf/orders.yaml': 'svc.broker.topic: named' });
    const cwd = folderWith({ 'svc.config.yaml': 'svc.broker.topic: found' });
    const loaded = loadConfig({ cwd, env: { SVC_CONFIG: join(other, 'conf/orders.yaml') } });
    assert.deepEqual([loaded.config.broker.topic, loaded.config.baseDir], ['named', join(other, 'conf')]);
  });

  it('warns about a second file in the same folder, and says which is used', () => {
    const loaded = load({
      'svc.config.json': '{}',
      'svc.config.yml': 'svc.broker.topic: yml',
      'svc.config.ts': '',
    });
    assert.equal(loaded.config.broker.topic, 'yml');
    assert.deepEqual(lines(loaded.warnings), [
      'svc.config.yml: is used; svc.config.json and svc.config.ts in the same folder are not read. Keep one of them, or name one in SVC_CONFIG.',
    ]);
  });

  it('gives functions of .mjs files through', () => {
    const text =
      "export default { svc: { broker: { topic: 'a' }, context: { actor: { userId: (r) => r.user } }, targets: [{ module: 'a', function: 'b', payload: ({ result }) => result, key: () => 'k' }] } }";
    const { config, problems, targetProblems } = load({ 'svc.config.mjs': text });
    assert.deepEqual([problems, targetProblems], [[], []]);
    assert.equal(typeof config.context.actor.userId, 'function');
    assert.equal(typeof config.targets[0]?.payload, 'function');
    assert.equal(typeof config.targets[0]?.key, 'function');
  });

  describe('that cannot be used', () => {
    it('does not exist', () => {
      const cwd = folderWith();
      assert.equal(
        only(loadConfig({ cwd, env: { SVC_CONFIG: 'conf/a.yaml' } })),
        'conf/a.yaml: does not exist (named by SVC_CONFIG). Correct SVC_CONFIG, or create the file.',
      );
      const elsewhere = join(folderWith(), 'a.mjs');
      assert.match(
        only(loadConfig({ cwd, env: { SVC_CONFIG: elsewhere } })),
        new RegExp(`^${elsewhere}: does not exist`),
      );
    });

    it('is a folder', () => {
      const cwd = folderWith();
      mkdirSync(join(cwd, 'svc.config.yaml'));
      assert.equal(
        only(loadConfig({ cwd, env: {} })),
        'svc.config.yaml: is a folder, not a file. Name a file.',
      );
    });

    it('cannot be read: permission denied', () => {
      const cwd = folderWith({
        'package.json': '{ "name": "a" }',
        'svc.config.yaml': 'svc.broker.topic: orders',
        'closed/keep': '',
      });
      chmodSync(cwd, 0o755);
      chmodSync(join(cwd, 'svc.config.yaml'), 0);
      chmodSync(join(cwd, 'closed'), 0);
      asOrdinaryUser(() => {
        const fix = "Give the application's user the right to read it";
        assert.equal(
          only(loadConfig({ cwd, env: {} })),
          `svc.config.yaml: cannot be read: permission denied. ${fix}.`,
        );
        // A folder that may not be looked into holds no configuration.
        assert.equal(
          loadConfig({ cwd: join(cwd, 'closed'), env: {} }).config.file,
          join(cwd, 'svc.config.yaml'),
        );
      });
    });

    it('has another ending', () => {
      const loaded = load({ 'svc.toml': 'a = 1' }, { SVC_CONFIG: 'svc.toml' });
      assert.equal(
        only(loaded),
        'svc.toml: has an extension that svc does not read (named by SVC_CONFIG). Name a .yaml, .yml, .json, .mjs or .ts file.',
      );
    });

    it('is not YAML, with the line and without the text', () => {
      const says = only(loadYaml('svc:\n  broker:\n    password: hunter2\n   topic: [a\n'));
      assert.match(says, /^svc\.config\.yaml: is not valid YAML: .+ \(line 4\)\.$/);
      assert.doesNotMatch(says, /hunter2/);
      assert.match(only(loadYaml('svc: 1\nsvc: 2\n')), /a name is in the list twice \(line 2\)\.$/);
      assert.match(only(loadYaml('svc: !!js/function x\n')), /its tag is not known/);
      assert.match(only(loadYaml('svc: {}\n---\nsvc: {}\n')), /more than one document/);
      assert.match(only(loadYaml('svc:\n\tbroker: 1\n')), /indented with tabs \(line 2\)/);
    });

    it('is not JSON, without the text', () => {
      const says = only(load({ 'svc.config.json': '{"svc": {"password": hunter2}}' }));
      assert.match(says, /^svc\.config\.json: is not valid JSON/);
      assert.doesNotMatch(says, /hunter2/);
      assert.equal(
        only(load({ 'svc.config.json': '{\n  "svc": {},\n}' })),
        'svc.config.json: is not valid JSON (line 3). Comments and trailing commas are not allowed.',
      );
    });

    for (const [text, kind] of [
      ['- a\n- b', 'a list'],
      ['orders', 'a string'],
      ['7', 'a number'],
    ] as const) {
      it(`holds ${kind}`, () => {
        const fix = 'Begin the file with svc:, and put the names under it';
        assert.equal(
          only(loadYaml(text)),
          `svc.config.yaml: must hold names and values, got ${kind}. ${fix}.`,
        );
      });
    }

    const modules: Record<string, [content: string, says: string | RegExp]> = {
      'top-level await': [
        'await 1; export default {}',
        'svc.config.mjs: has a top-level await, or imports a module that has one. svc starts before the application and cannot wait. Remove the await.',
      ],
      'an error': [
        "\nthrow new TypeError('no\\nway')",
        /^svc\.config\.mjs: cannot be loaded: TypeError \(line 2\)\. Run node \/.*svc\.config\.mjs to see the whole error\.$/,
      ],
      'a syntax error': [
        'export default {\n  svc: }',
        /^svc\.config\.mjs: cannot be loaded: SyntaxError\. Run node --check \/.*svc\.config\.mjs\.$/,
      ],
      'a missing import': [
        "import './nowhere.mjs'; export default {}",
        /^svc\.config\.mjs: imports a module that cannot be found\. Run node \/.* to see which\.$/,
      ],
      'no default export': [
        'export const svc = {}',
        'svc.config.mjs: has no default export. Write export default { svc: { … } }.',
      ],
      'a promise': [
        "export default Promise.reject(new Error('x'))",
        'svc.config.mjs: exports a promise. svc starts before the application and cannot wait. Export the object itself.',
      ],
      'a function': [
        'export default () => ({})',
        'svc.config.mjs: must hold names and values, got a function. Begin the file with svc:, and put the names under it.',
      ],
    };
    for (const [what, [content, says]] of Object.entries(modules)) {
      it(`is a module with ${what}`, () => {
        const line = only(load({ 'svc.config.mjs': content }));
        if (typeof says === 'string') assert.equal(line, says);
        else assert.match(line, says);
      });
    }

    it('is a module that throws something that is no error', () => {
      const says = only(load({ 'a.cjs': 'throw 7' }, { SVC_CONFIG: 'a.cjs' }));
      assert.match(
        says,
        /^a\.cjs: cannot be loaded: it threw something that is not an error \(named by SVC_CONFIG\)\./,
      );
    });

    it('has getters that throw', () => {
      const content = "export default { svc: { get broker() { throw new RangeError('hunter2') } } }";
      const says = only(load({ 'svc.config.mjs': content }, { SVC_BROKER_TOPIC: 'orders' }));
      assert.equal(says, 'svc.config.mjs: cannot be read: RangeError. Use plain objects and values.');
    });

    it('has TypeScript that cannot be stripped', () => {
      const says = only(load({ 'svc.config.ts': 'enum A { B }\nexport default {}' }));
      assert.match(says, /^svc\.config\.ts: has TypeScript syntax that Node cannot strip.*Remove enums/);
    });

    it('is TypeScript on a Node that does not run it', () => {
      const cwd = folderWith({ 'svc.config.ts': 'const a: object = {}; export default a;' });
      // A plain copy of the sources for a Node that cannot read them: the built file would do as well.
      const says = runWithoutTypeScript(cwd);
      assert.match(
        says,
        /^svc\.config\.ts: cannot be loaded: this Node \(v\d+\.\d+\.\d+\) does not run TypeScript\. Use svc\.config\.mjs/,
      );
    });
  });

  it('one of JSON with a thousand mistakes is read as quickly as one of YAML', () => {
    const targets = Array.from({ length: 1_000 }, (_, n) => ({
      module: './a.mjs',
      function: `f${n}`,
      evenType: 'e',
    }));
    const text = JSON.stringify({ svc: { broker: { client: 'file', topic: 'events' }, targets } }, null, 1);
    const cpuMs = (name: string): number => {
      const before = process.cpuUsage();
      load({ [name]: text });
      return process.cpuUsage(before).user / 1_000;
    };
    const [yaml, json] = [cpuMs('svc.config.yaml'), cpuMs('svc.config.json')];
    assert.ok(json < 3 * yaml + 500, `${json} ms for JSON, ${yaml} ms for YAML`);
  });

  it('that is empty, or only comments, says so and what is missing', () => {
    for (const text of ['', '\n# nothing\n', 'null', '---\n']) {
      const loaded = loadYaml(text);
      assert.deepEqual(lines(loaded.warnings), ['svc.config.yaml: is empty.'], JSON.stringify(text));
      assert.match(only(loaded), /^svc\.broker\.topic: Kafka topic is required\./);
    }
    assert.deepEqual(lines(load({ 'svc.config.json': ' ' }).warnings), ['svc.config.json: is empty.']);
    assert.match(only(load({ 'svc.config.json': '{}' })), /Kafka topic is required/);
  });
});

/** The superuser may read everything. */
function asOrdinaryUser(work: () => void): void {
  const isSuperuser = process.geteuid?.() === 0;
  if (isSuperuser) process.seteuid?.(65_534);
  try {
    work();
  } finally {
    if (isSuperuser) process.seteuid?.(0);
  }
}

function runWithoutTypeScript(cwd: string): string {
  const reader = fileURLToPath(new URL('../../../src/config/read/load.ts', import.meta.url));
  const script = `
    import { registerHooks, stripTypeScriptTypes } from 'node:module';
    import { readFileSync } from 'node:fs';
    registerHooks({ load(url, context, next) {
      if (!url.includes('/src/')) return next(url, context);
      return { format: 'module', shortCircuit: true, source: stripTypeScriptTypes(readFileSync(new URL(url), 'utf8')) };
    } });
    const { loadConfig } = await import(${JSON.stringify(pathToFileURL(reader).href)});
    const { formatProblem } = await import(${JSON.stringify(new URL('../../../src/config/check/check.ts', import.meta.url).href)});
    console.log(loadConfig({ cwd: ${JSON.stringify(cwd)}, env: {} }).problems.map(formatProblem).join('\\n'));`;
  const flags = ['--no-experimental-strip-types', '--no-warnings', '--input-type=module', '--eval', script];
  return execFileSync(process.execPath, flags, { encoding: 'utf8', env: {} });
}
