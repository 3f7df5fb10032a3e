import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { installPacked } from '../../support/packed.ts';
import { freshFolder, type Run, runApp, writeFiles } from '../support/run-app.ts';
import { otelPackages, subject } from '../support/subject.ts';
import { fieldEvents, shopConfig, shopEvents, shopReturns, shopSources } from './shop.ts';
import { type Toolchain, toolchainPackages } from './toolchain.ts';
import { toolchains } from './toolchains.ts';

const tested = await subject();
const application = () =>
  installPacked(`toolchains-otel-${tested.otel}`, { ...otelPackages[tested.otel].api, ...toolchainPackages });

function make({ id, app, build, file, compilerOptions }: Toolchain): string {
  const folder = freshFolder(application(), id);
  writeFiles(folder, { ...shopSources(app, compilerOptions), 'svc.config.json': shopConfig(file) });
  if (build !== undefined) {
    writeFiles(folder, { 'build.cjs': build });
    execFileSync(process.execPath, ['build.cjs'], {
      cwd: folder,
      timeout: 120_000,
      stdio: ['ignore', 'inherit', 'inherit'],
    });
  }
  return folder;
}

function countsOf(run: Run): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { value } of run.events) counts[value.eventType] = (counts[value.eventType] ?? 0) + 1;
  return counts;
}

/** What a legacy decorator is told; the field works all the same. */
const aboutFields = 'a legacy decorator cannot see the value of a field';

for (const toolchain of toolchains.filter(({ isEveryday }) => isEveryday || tested.isMatrix)) {
  describe(`${toolchain.title} [${toolchain.id}]`, function suite() {
    this.timeout(300_000);
    const { app, bare, ways, file, env, unreachable, lines, says } = toolchain;
    const isLegacy = app === 'cjs' || toolchain.decorators === 'legacy';
    const events = toolchain.events ?? (isLegacy ? shopEvents : { ...shopEvents, ...fieldEvents });
    let folder: string;
    let without: Run;

    const run = (args: readonly string[]) =>
      runApp({ node: tested.node, cwd: folder, args: [...args, file('main')], ...(env && { env }) });

    before(async () => {
      folder = make(toolchain);
      without = await run(bare);
    });

    it('runs without svc', () => {
      assert.equal(without.code, 0, without.stderr);
      assert.deepEqual(JSON.parse(without.stdout).returned, shopReturns(app));
      if (lines) for (const line of JSON.parse(without.stdout).lines) assert.match(line, lines);
    });

    for (const [way, args] of Object.entries(ways)) {
      const refused = unreachable?.(tested, way);
      it(`${way}: ${refused ? 'runs as before, and svc says what it cannot reach' : 'counts each call once, lines and results unchanged'}`, async () => {
        const under = await run(args);
        assert.equal(under.code, 0, under.stderr);
        assert.deepEqual(JSON.parse(under.stdout), JSON.parse(without.stdout));
        if (refused) return assert.match(under.stderr, refused);
        const all = under.stderr.split('\n').filter((line) => line.includes('is not captured'));
        const said = all.filter((line) => !line.includes(aboutFields));
        assert.equal(all.length - said.length, isLegacy ? 1 : 0, under.stderr);
        if (says) assert.match(said.join('\n'), says);
        else assert.deepEqual(said, []);
        assert.deepEqual(countsOf(under), events, under.stderr);
      });
    }
  });
}
