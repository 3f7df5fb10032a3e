import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, symlink } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { before, describe, it } from 'mocha';
import { followImports, inspect } from '../../../src/capture/inspect.ts';
import { hookPackages, inspectPackageTarget } from '../../../src/capture/packages/hook.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { recordingSlot } from '../recording-slot.ts';
import { installPackages } from './installed-packages.ts';

const application = {
  'package.json': '{"name":"app","imports":{"#mail":"plain"}}',
  'main.cjs': `
    const { send, both, deep } = require('plain');
    send('o1', {}); both('o2'); deep.a.b('o3');
    require('whole')('o1');
    const { Stripe } = require('classy'); new Stripe().refund(1); new (require('classy'))().refund(2);
    const Mailer = require('bare-class'); new Mailer().send('a');
    const bundled = require('bundled'); bundled.send('o1'); new bundled.Client().get(1);
    check(bundled.other() === 'other' && bundled.__esModule === true && Object.keys(bundled).join() === 'send,Client,other');
    check(require('bundled') === bundled);
    const compiled = require('compiled'); compiled.send('o1'); compiled.default('o1');
    const { createClient, connect } = require('factory');
    createClient().send('o1'); createClient().send('o2'); createClient().orders.create();
    connect().then((client) => client.send('o3'));
    require('sub/mail').send('o1'); require('@scope/pkg').send('o1');
    const modern = require('modern');
    modern.send('o1'); new modern.Client().get(1); new modern.default().post('x'); modern.renamed(1); modern.star(1);
    modern.bump(); check(modern.counter === 1 && Object.prototype.toString.call(modern) === '[object Module]');
    require('modern-object').default.send('o1');
    require('dual').send('o1');
    function check(isTrue) { if (!isTrue) throw new Error('the package changed: ' + new Error().stack.split('\\n')[2]); }`,
  'main.mjs': `
    import plain, { send, both } from 'plain';
    import * as all from 'plain';
    import whole from 'whole';
    import Stripe, { Stripe as Named } from 'classy';
    import Mailer from 'bare-class';
    import bundled, { send as bundledSend, Client as BundledClient } from 'bundled';
    import { send as compiledSend } from 'compiled';
    import compiled from 'compiled';
    import { createClient, connect } from 'factory';
    import { send as mail } from 'sub/mail';
    import { send as scoped } from '@scope/pkg';
    import Poster, { send as modernSend, inside, Client, star, renamed, ns, createClient as modernClient } from 'modern';
    import object from 'modern-object';
    import { send as importOnly } from 'import-only';
    import { send as dual } from 'dual';
    import { createRequire } from 'node:module';
    send('o1'); plain.send('o2'); all.send('o3'); both('o4'); plain.deep.a.b('o5');
    whole('o1'); new Stripe().refund(1); new Named().refund(2); new Mailer().send('a');
    bundledSend('o1'); bundled.send('o2'); new BundledClient().get(1);
    compiledSend('o1'); compiled.default('o1');
    createClient().send('o1'); (await connect()).send('o2'); createClient().orders.create();
    mail('o1'); scoped('o1');
    modernSend('o1'); inside('o2'); new Client().get(1); Client.open().get(2); new Poster().post('x');
    star(1); renamed(1); ns.rename(1); modernClient().send('o1');
    (await import('modern')).send('o3');
    object.send('o1'); importOnly('o1'); dual('o1');
    createRequire(import.meta.url)('dual').send('o2');`,
  'mapped.mjs': `import { send } from '#mail'; send('o1');`,
  'mapped.cjs': `require('#mail').send('o1');`,
  'builtin.mjs': `
    import { tmpdir } from 'node:os'; import os from 'os'; import { createRequire } from 'node:module';
    tmpdir(); os.tmpdir(); createRequire(import.meta.url)('os').tmpdir(); createRequire(import.meta.url)('node:os').tmpdir();`,
  'wrong.cjs': `require('plain'); require('bundled'); require('bare-class'); require('factory').createClient();`,
  'wrong.mjs': `import 'plain'; import 'bundled'; import 'modern';`,
  '.next/chunk.mjs': `
    import { createRequire } from 'node:module';
    const suffix = '-4d62399e06797e94';
    (await import('import-only' + suffix)).send('o1');
    (await import('dual' + suffix)).send('o1');
    createRequire(import.meta.url)('dual' + suffix).send('o2');
    (await import('sub' + suffix + '/mail')).send('o1');
    (await import('@scope/pkg' + suffix)).send('o1');`,
  'nothing.cjs': '',
  'halves-import.mjs': `
    import Halves, { both, imported } from 'halves';
    new Halves(); both(1); imported(1);`,
  'halves-require.cjs': `
    const halves = require('halves');
    halves(1); halves.both(1); halves.required(1); halves.made(1);`,
  'halves-import-first.mjs': `import './halves-import.mjs'; await import('./halves-require.cjs');`,
  'halves-require-first.mjs': `await import('./halves-require.cjs'); await import('./halves-import.mjs');`,
  'halves-of-none.mjs': '',
  'twice.mjs': `
    import assert from 'node:assert';
    import { createRequire } from 'node:module';
    import Client, { Client as Named, api, send } from 'twice';
    import assigned from 'assigned';
    assert.equal(assigned.send, assigned.SEND);
    assigned.send(1); assigned.SEND(2);
    const { Client: make } = createRequire(import.meta.url)('twice');
    assert.equal(Client, Named);
    assert.equal(new Client(1).constructor, Client);
    assert.ok(Client.make() instanceof Named && Client.VERSION === '1');
    assert.equal(api.send, send);
    api.send('o1'); send('o2'); make(2);`,
  'shadows.mjs': `
    import { send, Symbol } from 'shadows';
    send('o1'); new Symbol().of('o2');`,
};

interface Outcome {
  calls: Record<string, number>;
  told: Record<string, string>;
  lines: string[];
  parameters: Record<string, string[]>;
}

describe('hookPackages', function () {
  this.timeout(30_000);
  let folder = '';
  before(async () => {
    folder = temporaryFolder('packages');
    await installPackages(folder, application);
  });

  async function run(main: string, targets: string[], ...flags: string[]): Promise<Outcome> {
    const preload = new URL('./preload.ts', import.meta.url).href;
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      ['--import', preload, ...flags, main],
      { cwd: folder, env: { ...process.env, TARGETS: JSON.stringify(targets) } },
    );
    assert.equal(stderr, '');
    return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Outcome;
  }

  const everything = {
    'plain#send': { cjs: 2, esm: 4 },
    'plain#deep.a.b': { cjs: 1, esm: 1 },
    'whole#default': { cjs: 1, esm: 1 },
    'classy#Stripe.prototype.refund': { cjs: 2, esm: 2 },
    'bare-class#Mailer.prototype.send': { cjs: 1, esm: 1 },
    'bundled#send': { cjs: 1, esm: 2 },
    'bundled#Client.prototype.get': { cjs: 1, esm: 1 },
    'compiled#send': { cjs: 1, esm: 1 },
    'compiled#default': { cjs: 1, esm: 1 },
    'factory#createClient().send': { cjs: 3, esm: 2 },
    'factory#createClient().orders.create': { cjs: 1, esm: 1 },
    'sub/mail#send': { cjs: 1, esm: 1 },
    '@scope/pkg#send': { cjs: 1, esm: 1 },
    // Calls inside of a package count as well.
    'modern#send': { cjs: 1, esm: 3 },
    'modern#Client.prototype.get': { cjs: 1, esm: 2 },
    'modern#default.prototype.post': { cjs: 1, esm: 1 },
    'modern#renamed': { cjs: 1, esm: 2 },
    'modern#star': { cjs: 1, esm: 1 },
    'modern-object#send': { cjs: 1, esm: 1 },
    'dual#send': { cjs: 1, esm: 2 },
  };
  const importOnly = { 'import-only#send': 1, 'modern#createClient().send': 1 };

  it('captures what require loads, ES modules included, each call once', async () => {
    const targets = Object.keys(everything);
    const { calls, told } = await run('main.cjs', targets);
    assert.deepEqual(calls, Object.fromEntries(Object.entries(everything).map(([id, { cjs }]) => [id, cjs])));
    for (const id of targets) assert.equal(told[id], 'patched', id);
  });

  it('captures what import loads, CommonJS included, each call once', async () => {
    const targets = [...Object.keys(everything), ...Object.keys(importOnly)];
    const { calls, told } = await run('main.mjs', targets);
    const expected = Object.entries(everything).map(([id, { esm }]) => [id, esm]);
    assert.deepEqual(calls, { ...Object.fromEntries(expected), ...importOnly });
    for (const id of targets) assert.equal(told[id], 'patched', id);
  });

  it('reads parameter names', async () => {
    const { parameters } = await run('main.cjs', [
      'plain#send',
      'whole#default',
      'bundled#Client.prototype.get',
    ]);
    assert.deepEqual(parameters, {
      'plain#send': ['order', 'options'],
      'whole#default': ['order'],
      'bundled#Client.prototype.get': ['id'],
    });
  });

  it('follows #imports and built-in modules', async () => {
    for (const main of ['mapped.mjs', 'mapped.cjs']) {
      for (const id of ['plain#send', '#mail#send'])
        assert.deepEqual((await run(main, [id])).calls, { [id]: 1 }, main);
    }
    assert.deepEqual((await run('builtin.mjs', ['node:os#tmpdir'])).calls, { 'node:os#tmpdir': 4 });
  });

  it('knows a package by its own package.json, where a link has another name', async () => {
    // As Turbopack makes them for packages that stay out of the bundle.
    const links = path.join(folder, '.next/node_modules');
    await mkdir(path.join(links, '@scope'), { recursive: true });
    for (const name of ['import-only', 'dual', 'sub', '@scope/pkg'])
      await symlink(path.join(folder, 'node_modules', name), path.join(links, `${name}-4d62399e06797e94`));
    const targets = ['import-only#send', 'dual#send', 'sub/mail#send', '@scope/pkg#send'];
    const { calls } = await run('.next/chunk.mjs', targets);
    assert.deepEqual(calls, {
      'import-only#send': 1,
      'dual#send': 2,
      'sub/mail#send': 1,
      '@scope/pkg#send': 1,
    });
  });

  const wrong = [
    'plain#sent',
    'plain#deep.a.c',
    'plain#number',
    'plain#badPlan',
    'plain#both',
    'bundled#Client.prototype.gett',
    'not-installed#x',
    'plian#send',
    'sub/male#send',
    'plain#send(1)',
  ];
  for (const main of ['wrong.cjs', 'wrong.mjs']) {
    it(`says what is wrong, and patches the rest (${main})`, async () => {
      const { told } = await run(main, wrong);
      const reason = (id: string) => told[id] ?? '';
      assert.equal(reason('plain#sent'), 'the module has no export sent (did you mean send?)');
      assert.match(reason('plain#deep.a.c'), /^there is no deep\.a\.c/);
      assert.equal(reason('plain#number'), 'number is not a function');
      assert.equal(reason('plain#badPlan'), 'the expression does not parse');
      assert.equal(reason('plain#both'), 'patched');
      assert.equal(
        reason('bundled#Client.prototype.gett'),
        'there is no Client.prototype.gett (did you mean get?)',
      );
      assert.match(reason('not-installed#x'), /^no package not-installed is installed for /);
      assert.match(reason('plian#send'), /^no package plian is installed .*did you mean plain\?/);
      assert.equal(reason('sub/male#send'), 'the package sub has no entry sub/male (did you mean sub/mail?)');
      assert.match(reason('plain#send(1)'), /is not the path of a function/);
    });
  }

  // What a start says of the builds that it loads, and svc check of the same: in what import loads, in what require loads, in both.
  const isClass = /^Halves is not a function but a class: name one of its methods/;
  const missing = (name: string) => new RegExp(`^the module has no export ${name}`);
  const halves: Record<string, [imported: RegExp, required: RegExp, both: RegExp, calls: number]> = {
    'halves#both': [/^patched$/, /^patched$/, /^patched$/, 2],
    'halves#default': [isClass, /^patched$/, /in what import loads; elsewhere it is captured/, 1],
    'halves#imported': [/^patched$/, missing('imported'), /in what require loads; elsewhere/, 1],
    'halves#required': [missing('required'), /^patched$/, /in what import loads; elsewhere/, 1],
    'halves#made': [missing('made'), /^patched$/, /in what import loads; elsewhere/, 1],
  };
  const starts = [
    'halves-import.mjs',
    'halves-require.cjs',
    'halves-import-first.mjs',
    'halves-require-first.mjs',
  ];
  for (const [index, main] of starts.entries())
    it(`tells of each build of a package that is loaded, as svc check does (${main})`, async () => {
      const targets = Object.keys(halves);
      const { told, lines, calls } = await run(main, targets);
      const { packages } = followImports([path.join(folder, main)], folder);
      const reports = inspect(
        targets.map((id) => ({
          ...{ id, module: 'halves', functionPath: id.split('#')[1] ?? '' },
          makePlan: () => recordingSlot({ id }).plan,
        })),
        { baseDir: folder, loadedBy: (specifier) => packages.get(specifier) },
      );
      for (const [id, rows] of Object.entries(halves)) {
        const expected = rows[Math.min(index, 2)] as RegExp;
        assert.match(told[id] ?? '', expected, id);
        const isPatched = told[id] === 'patched';
        assert.equal(
          lines.filter((line) => line.includes(`target ${id} is not captured`)).length,
          isPatched ? 0 : 1,
        );
        if (index >= 2) assert.equal(calls[id], rows[3], id);
        const report = reports.find((each) => each.id === id);
        // What only running it shows is no failure for a check.
        if (isPatched) assert.match(report?.state ?? '', /^(found|pending)$/, id);
        else assert.match(`${report?.state} ${report?.reason}`, /^(failed .*|pending undefined)$/, id);
      }
    });

  it('svc check names the build without the function where it does not know which one is loaded', () => {
    const target = { id: 'halves#default', module: 'halves', functionPath: 'default' };
    const [report] = inspect([{ ...target, makePlan: () => recordingSlot().plan }], { baseDir: folder });
    assert.equal(report?.state, 'found');
    assert.match(
      report?.notes.join() ?? '',
      /^not in what import loads: Halves is not a function but a class/,
    );
  });

  it('keeps what is one class, or one function, under several names', async () => {
    const both = await run('twice.mjs', ['twice#default', 'twice#api.send']);
    assert.deepEqual(both.calls, { 'twice#default': 1, 'twice#api.send': 2 });
    for (const name of ['assigned#send', 'assigned#default.send'])
      assert.deepEqual((await run('twice.mjs', [name])).calls, { [name]: 2 });
    const named = await run('twice.mjs', ['twice#Client', 'twice#send']);
    assert.deepEqual(named.calls, { 'twice#Client': 2, 'twice#send': 2 });
    assert.match(named.told['twice#Client'] ?? '', /^patched$/);
  });

  it('needs no name that a module can have for something else', async () => {
    const { calls } = await run('shadows.mjs', ['shadows#send', 'shadows#Symbol.prototype.of']);
    assert.deepEqual(calls, { 'shadows#send': 1, 'shadows#Symbol.prototype.of': 2 });
  });

  it('says that a factory’s object lacks the method when it sees one', async () => {
    const { told } = await run('wrong.cjs', ['factory#createClient().post', 'factory#connect().send']);
    assert.equal(told['factory#createClient().post'], 'post of what createClient() returns: missing');
  });

  it('says that two targets name one function', async () => {
    const { told } = await run('wrong.mjs', ['plain#send', 'plain#default.send']);
    assert.equal(told['plain#send'], 'patched');
    assert.match(told['plain#default.send'] ?? '', /plain#send/);
  });

  it('hooks and loads nothing without targets', async () => {
    const { loaded } = JSON.parse(
      (
        await promisify(execFile)(process.execPath, [
          '--input-type=module',
          '-e',
          `import { createRequire } from 'node:module';
           import { hookPackages } from '${new URL('../../../src/capture/packages/hook.ts', import.meta.url).href}';
           const { Module } = createRequire(import.meta.url)('node:module');
           const before = Module.prototype.require;
           hookPackages([], {}, { preloadedBy: "import" }).install();
           const loaded = Object.keys(createRequire(import.meta.url).cache).filter((file) => /in-the-middle/.test(file));
           if (Module.prototype.require !== before) loaded.push('require hook');
           console.log(JSON.stringify({ loaded }));`,
        ])
      ).stdout,
    );
    assert.deepEqual(loaded, []);
  });

  it('takes its hooks away again', () => {
    const slot = recordingSlot();
    const target = {
      id: 'node:os#homedir',
      specifier: 'node:os',
      functionPath: 'homedir',
      baseDir: folder,
      slotFor: () => slot,
    };
    const before = process.getBuiltinModule;
    const hooks = hookPackages(
      [target],
      { patched: () => {}, failed: () => {}, isPatched: () => false },
      { preloadedBy: 'import' },
    );
    hooks.install();
    assert.notEqual(process.getBuiltinModule, before);
    hooks.close();
    assert.equal(process.getBuiltinModule, before);
  });

  describe('inspectPackageTarget', () => {
    const inspect = (id: string) => {
      const [specifier = '', functionPath = ''] = id.split('#');
      const slotFor = () => recordingSlot();
      return inspectPackageTarget({ id, specifier, functionPath, baseDir: folder, slotFor });
    };

    it('finds packages without loading them', () => {
      const fine = [
        'plain#send',
        'import-only#send',
        'import-only/x/y#f',
        'sub/mail#send',
        '@scope/pkg#send',
        'fs#readFile',
        'node:test#it',
      ];
      for (const id of fine) assert.equal(inspect(id), undefined, id);
    });

    it('says what cannot be', () => {
      assert.match(inspect('plian#send') ?? '', /did you mean plain/);
      assert.match(inspect('@scope/pgk#send') ?? '', /did you mean @scope\/pkg/);
      assert.match(inspect('import-only/z#f') ?? '', /has no entry import-only\/z/);
      assert.match(inspect('sub#f') ?? '', /has no entry sub/);
      assert.match(inspect('node:fss#f') ?? '', /did you mean node:fs/);
      assert.match(inspect('plain#') ?? '', /is not the path/);
    });
  });
});
