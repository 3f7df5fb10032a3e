import assert from 'node:assert/strict';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { eventCounts, sources, configuredTargets as targets } from '../../capture/source/maps/shop-source.ts';
import { plainApp } from '../support/apps.ts';
import { freshFolder, writeFiles } from '../support/run-app.ts';
import { type AppEnd, endOf } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

const svc = join('node_modules', 'svc', 'bin', 'svc.cjs');

describe('targets of sources that a build was made from', function () {
  this.timeout(180_000);
  let app: string;

  before('npm install', () => {
    app = plainApp();
  });

  function build(format: 'esm' | 'cjs', outfile: string, config: object): string {
    const folder = freshFolder(app, 'built');
    writeFiles(folder, { ...sources, 'svc.config.json': JSON.stringify(config) });
    buildSync({
      ...{ absWorkingDir: folder, entryPoints: ['src/main.ts'], outfile, format },
      ...{
        bundle: true,
        minify: true,
        platform: 'node',
        target: 'node22',
        sourcemap: 'linked',
        logLevel: 'silent',
      },
    });
    return folder;
  }

  const run = (folder: string, args: readonly string[], env: Record<string, string> = {}): Promise<AppEnd> =>
    endOf({ app, folder, files: {}, args, env, timeoutMs: 60_000 });
  function start(folder: string, main: string): Promise<AppEnd> {
    rmSync(join(folder, 'svc-topics'), { recursive: true, force: true });
    return run(folder, ['--import', 'svc/register', main]);
  }

  function assertEvents({ code, stderr, topics }: AppEnd): void {
    assert.equal(code, 0, stderr);
    const seen: Record<string, number> = {};
    for (const { value } of topics.events ?? []) seen[value.eventType] = (seen[value.eventType] ?? 0) + 1;
    assert.deepEqual(seen, eventCounts, stderr);
  }

  for (const [format, main] of [
    ['esm', 'dist/main.mjs'],
    ['cjs', 'dist/main.cjs'],
  ] as const)
    it(`svc manifest is all that a start needs, ${format}`, async () => {
      const folder = build(format, main, configOf(targets));
      assertEvents(await start(folder, main));
      const list = await run(folder, [join(app, svc), 'manifest', 'dist']);
      assert.equal(list.code, 0, list.stdout + list.stderr);
      for (const path of ['src', `${main}.map`]) rmSync(join(folder, path), { recursive: true });
      const listed = await start(folder, main);
      assertEvents(listed);
      assert.doesNotMatch(listed.stderr, /svc: (?:warn|error)/);
    });

  it('svc.required: starts with what Next.js has built, or svc manifest lists, without the sources, and not without', async () => {
    const required = { required: true };
    const folder = build('cjs', '.next/server/chunks/main.js', configOf(targets, required));
    writeFiles(folder, { '.next/BUILD_ID': 'x', '.next/package.json': '{"type":"commonjs"}' });
    rmSync(join(folder, 'src'), { recursive: true });
    // As Next.js: no import leads to what it loads.
    writeFileSync(join(folder, 'server.cjs'), "require(['./.next/server', 'chunks', 'main.js'].join('/'));");
    assertEvents(await start(folder, 'server.cjs'));

    const list = await run(folder, [join(app, svc), 'manifest', '.next/server']);
    assert.equal(list.code, 0, list.stdout + list.stderr);
    renameSync(join(folder, '.next/server/chunks/main.js.map'), join(folder, 'main.js.map'));
    assertEvents(await start(folder, 'server.cjs'));

    rmSync(join(folder, 'svc.manifest.json'));
    const refused = await start(folder, 'server.cjs');
    assert.deepEqual([refused.code, refused.stdout], [78, ''], refused.stderr);
    assert.match(refused.stderr, /process does not start: 9 targets cannot be patched$/m);
  });
});
