import assert from 'node:assert/strict';
import { chmodSync, chownSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type LoadedConfig, loadConfig } from '../../../src/config/read/load.ts';
import { needing } from '../../support/requires.ts';
import { folderWith, lines, removeFolders } from '../config-folder.ts';

const code = 'globalThis.svcForeignCode = true; export default { svc: { broker: { topic: "stolen" } } }';
const data = 'svc.broker.topic: stolen';
const project = '{ "name": "orders" }';
const stranger = 54_321;

const load = (cwd: string, env = {}): LoadedConfig => loadConfig({ cwd, env });

function assertNotTaken(loaded: LoadedConfig, says: RegExp): void {
  assert.equal(loaded.isReadable, false);
  assert.match(lines(loaded.problems)[0] ?? '', says);
  assert.equal(loaded.config.broker.topic, '');
  assertNotRun();
}

function assertNotRun(): void {
  assert.equal('svcForeignCode' in globalThis, false, 'the code was run');
}

describe('whose configuration is taken', () => {
  afterEach(() => {
    Reflect.deleteProperty(globalThis, 'svcForeignCode');
    removeFolders();
  });

  describe('the search', () => {
    it('ends at the nearest package.json: what lies above is not run', () => {
      const root = folderWith({
        'svc.config.mjs': code,
        'app/package.json': project,
        'app/src/deep/keep': '',
      });
      const { found, notFound } = load(join(root, 'app/src/deep'));
      assertNotRun();
      assert.equal(found, false);
      assert.equal(
        notFound,
        `no configuration: looked for svc.config.{yaml,yml,json,mjs,ts} in ${join(root, 'app/src/deep')} and the folders ` +
          `above it up to ${join(root, 'app')}, and for environment variables that begin with SVC_. ` +
          `${join(root, 'svc.config.mjs')} is outside the project and is not read. ` +
          'Create svc.config.yaml (npx --no svc init), or name a file in SVC_CONFIG.',
      );
    });

    it('stays in the working directory where there is no package.json', () => {
      const root = folderWith({ 'svc.config.mjs': code, 'app/keep': '' });
      assert.equal(load(join(root, 'app')).found, false);
      assertNotRun();
      assert.equal(load(root).config.broker.topic, 'stolen');
    });

    it('passes by a package.json that only says how a folder is read', () => {
      const files = { 'svc.config.yaml': data, 'package.json': project };
      const root = folderWith({ ...files, 'dist/cjs/package.json': '{ "type": "commonjs" }' });
      assert.equal(load(join(root, 'dist/cjs')).config.file, join(root, 'svc.config.yaml'));
      const bare = folderWith({ 'svc.config.yaml': data, 'app/package.json': '{ "type": "module" }' });
      assert.equal(load(join(bare, 'app')).found, false);
    });

    for (const [name, content] of [
      ['package.json', '{ "workspaces": ["apps/*"] }'],
      ['pnpm-workspace.yaml', 'packages: [apps/*]'],
      ['lerna.json', '{}'],
      ['rush.json', '{}'],
    ] as const)
      it(`goes on to the root of the workspace, which ${name} marks, and no further`, () => {
        const root = folderWith({
          'svc.config.yaml': 'svc.broker.topic: far',
          [`repository/${name}`]: content,
          'repository/apps/orders/package.json': project,
        });
        const cwd = join(root, 'repository/apps/orders');
        assert.equal(load(cwd).found, false);
        const inside = folderWith({
          'svc.config.yaml': data,
          [name]: content,
          'apps/orders/package.json': project,
        });
        assert.equal(load(join(inside, 'apps/orders')).config.broker.topic, 'stolen');
      });

    it('a package.json that is damaged ends it as well', () => {
      const root = folderWith({ 'svc.config.mjs': code, 'package.json': project, 'app/package.json': '{' });
      assert.equal(load(join(root, 'app')).found, false);
      assertNotRun();
    });

    it('does not enter a folder above that everybody may write, package.json or not', () => {
      const root = folderWith({ 'svc.config.yaml': data, 'package.json': project, 'app/keep': '' });
      chmodSync(root, 0o1777);
      assert.equal(load(join(root, 'app')).found, false);
      chmodSync(root, 0o755);
      assert.equal(load(join(root, 'app')).found, true);
    });

    it('does not enter a folder above that another user owns', async function () {
      await needing('superuser', this);
      const root = folderWith({ 'svc.config.yaml': data, 'package.json': project, 'app/keep': '' });
      chownSync(root, stranger, stranger);
      assert.equal(load(join(root, 'app')).found, false);
      // Unless it is the owner of the working directory: a checkout that is mounted into a container.
      chownSync(join(root, 'app'), stranger, stranger);
      assert.equal(load(join(root, 'app')).found, true);
    });
  });

  describe('code', () => {
    for (const name of ['svc.config.mjs', 'svc.config.ts'])
      it(`${name} of another user is not run`, async function () {
        await needing('superuser', this);
        const cwd = folderWith({ [name]: code });
        chownSync(join(cwd, name), stranger, stranger);
        assertNotTaken(
          load(cwd),
          /^svc\.config\.\w+: is code that another user owns \(uid 54321; svc runs as uid 0\), and is not run\. Give it to uid 0 or the superuser, or name the file in SVC_CONFIG/,
        );
      });

    it('that is a link which another user made is not run', async function () {
      await needing('superuser', this);
      const cwd = folderWith({ 'real.mjs': code });
      symlinkSync(join(cwd, 'real.mjs'), join(cwd, 'svc.config.mjs'));
      const { lchownSync } = process.getBuiltinModule('node:fs');
      lchownSync(join(cwd, 'svc.config.mjs'), stranger, stranger);
      assertNotTaken(load(cwd), /another user owns/);
    });

    it('that a link leads to in a folder of another user is not run', async function () {
      await needing('superuser', this);
      const other = folderWith({ 'real.mjs': code });
      chownSync(other, stranger, stranger);
      const cwd = folderWith();
      symlinkSync(join(other, 'real.mjs'), join(cwd, 'svc.config.mjs'));
      assertNotTaken(load(cwd), /is code in a folder that another user owns/);
    });

    for (const [mode, isRefused] of [
      [0o644, false],
      [0o646, true],
      [0o666, true],
      [0o600, false],
    ] as const)
      it(`of mode ${mode.toString(8)} is ${isRefused ? 'not run' : 'run'}`, () => {
        const cwd = folderWith({ 'svc.config.mjs': code });
        chmodSync(join(cwd, 'svc.config.mjs'), mode);
        if (isRefused)
          assertNotTaken(load(cwd), /is code that others may write \(mode \d+\), and is not run/);
        else assert.equal(load(cwd).config.broker.topic, 'stolen');
      });

    it('that a group may write is run only where the group is the own one of its user', async function () {
      await needing('superuser', this);
      const cwd = folderWith({ 'svc.config.mjs': code });
      chmodSync(join(cwd, 'svc.config.mjs'), 0o664);
      chownSync(join(cwd, 'svc.config.mjs'), 0, stranger);
      assertNotTaken(load(cwd), /others may write \(mode 664\)/);
      chownSync(join(cwd, 'svc.config.mjs'), 0, 0);
      assert.equal(load(cwd).config.broker.topic, 'stolen');
    });

    for (const [mode, isRefused] of [
      [0o777, true],
      [0o1777, false],
      [0o755, false],
    ] as const)
      it(`in a folder of mode ${mode.toString(8)} is ${isRefused ? 'not run' : 'run'}, and in one inside it`, () => {
        const root = folderWith({ 'svc.config.mjs': code, 'inside/svc.config.mjs': code });
        chmodSync(root, mode);
        for (const cwd of [root, join(root, 'inside')])
          if (isRefused)
            assertNotTaken(load(cwd), /is code in a folder that .*others may write \(.*, mode 777\)/);
          else assert.equal(load(cwd).config.broker.topic, 'stolen');
      });

    it('is run whoever owns it, where SVC_CONFIG or --config names it', () => {
      const cwd = folderWith({ 'svc.config.mjs': code });
      if (process.geteuid?.() === 0) chownSync(join(cwd, 'svc.config.mjs'), stranger, stranger);
      chmodSync(join(cwd, 'svc.config.mjs'), 0o666);
      assert.equal(load(cwd, { SVC_CONFIG: 'svc.config.mjs' }).config.broker.topic, 'stolen');
      const named = loadConfig({ cwd, env: { SVC_CONFIG: 'gone.yaml' }, file: 'svc.config.mjs' });
      assert.equal(named.config.broker.topic, 'stolen');
    });
  });

  describe('YAML and JSON', () => {
    it('of another user are read from a mounted volume, but not from a folder that everybody may write', async function () {
      await needing('superuser', this);
      for (const [name, content] of [
        ['svc.config.yaml', data],
        ['svc.config.json', '{ "svc.broker.topic": "stolen" }'],
      ] as const) {
        const cwd = folderWith({ [name]: content });
        chownSync(join(cwd, name), stranger, stranger);
        chownSync(cwd, stranger, stranger);
        assert.equal(load(cwd).config.broker.topic, 'stolen');
        chmodSync(cwd, 0o1777);
        assertNotTaken(
          load(cwd),
          /belongs to another user \(uid 54321\) in a folder that every user may write, and is not read/,
        );
        chownSync(join(cwd, name), 0, 0);
        assert.equal(load(cwd).config.broker.topic, 'stolen');
      }
    });
  });
});
