import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { module, sources, targets } from '../../capture/source/maps/shop-source.ts';
import { writeApp } from '../../capture/source/run-app.ts';
import { runSvc } from '../../support/run-svc.ts';

const config = (functions: readonly string[]): string =>
  JSON.stringify({
    svc: {
      service: { name: 'shop' },
      broker: { topic: 'orders' },
      targets: functions.map((name) => ({ module, function: name, eventType: 'SHOP' })),
    },
  });

describe('svc check --bundle, and svc manifest', function () {
  this.timeout(60_000);
  const functions = targets.map((id) => id.slice(module.length + 1));

  function build(): string {
    const folder = writeApp({ ...sources, 'svc.config.json': config(functions) });
    buildSync({
      ...{ absWorkingDir: folder, entryPoints: ['src/main.ts'], outfile: 'dist/main.cjs' },
      ...{
        bundle: true,
        minify: true,
        platform: 'node',
        format: 'cjs',
        sourcemap: 'linked',
        logLevel: 'silent',
      },
    });
    return folder;
  }

  it('find all targets in a minified bundle, by file or folder, and exit with 0', async () => {
    const cwd = build();
    for (const path of ['dist', 'dist/main.cjs']) {
      const { code, stdout, stderr } = await runSvc(['check', '--bundle', path], { cwd });
      assert.equal(code, 0, stdout + stderr);
      assert.match(stdout, new RegExp(`bundle: ${path} has (\\d+) of \\1 targets in files, by source maps`));
    }
    const { code, stdout } = await runSvc(['manifest', 'dist', '--json'], { cwd });
    const { ok, targets: listed } = JSON.parse(stdout) as {
      ok: boolean;
      targets: { files: string[] }[];
    };
    assert.deepEqual([code, ok, listed.length], [0, true, functions.length]);
    for (const { files } of listed) assert.deepEqual(files, ['./dist/main.cjs']);
  });

  it('say what is not there, and exit with 1', async () => {
    const cwd = build();
    writeFileSync(join(cwd, 'svc.config.json'), config(['createOrder', 'createOrdre']));
    const check = await runSvc(['check', '--bundle', 'dist'], { cwd });
    assert.equal(check.code, 1);
    assert.match(check.stdout, /has 1 of 2 targets[\s\S]*did you mean createOrder\?/);
    const manifest = await runSvc(['manifest', 'dist'], { cwd });
    assert.equal(manifest.code, 1);
    assert.match(manifest.stdout, /1 of 2 targets[\s\S]*NOT FOUND .*createOrdre/);
  });

  it('refuse a folder without built files, and a place without a configuration', async () => {
    const cwd = build();
    for (const args of [
      ['check', '--bundle', 'none'],
      ['manifest', 'none'],
    ]) {
      const { code, stderr } = await runSvc(args, { cwd });
      assert.deepEqual([code, /there is no built JavaScript in none/.test(stderr)], [2, true], stderr);
    }
    rmSync(join(cwd, 'svc.config.json'));
    assert.equal((await runSvc(['manifest', 'dist'], { cwd })).code, 1);
  });
});
