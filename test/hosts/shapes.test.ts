import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { inspect } from '../../src/capture/inspect.ts';
import { type Outcome, runApp, writeApp } from '../capture/source/run-app.ts';
import { type Shape, shapes } from './shapes.ts';

const fileOf = ({ as = 'mjs' }: Shape, index: number): string => `s${index}.${as}`;
const idOf = (shape: Shape, index: number, path: string): string => `./${fileOf(shape, index)}#${path}`;

const main = shapes
  .map(
    (shape, index) => `{
  const out = [];
  const ns = await import('./${fileOf(shape, index)}');
  const m = ${shape.as?.startsWith('c') ? 'ns.default' : 'ns'};
  try { ${shape.use} } catch (error) { out.push(String(error)); }
  console.log('SHAPE ' + JSON.stringify({ index: ${index}, out: out.map((one) => one === undefined ? 'undefined' : one) }));
}`,
  )
  .join('\n');

/** What each shape printed. */
const printed = (stdout: string): Map<number, unknown> =>
  new Map(
    [...stdout.matchAll(/^SHAPE (.*)$/gm)].map(([, json = '']) => {
      const { index, out } = JSON.parse(json) as { index: number; out: unknown };
      return [index, out];
    }),
  );

describe('hosts: shapes of modules, without svc and with it', function () {
  this.timeout(60_000);
  let folder: string;
  let without: Map<number, unknown>;
  let under: Map<number, unknown>;
  let outcome: Outcome;

  before(() => {
    const files = shapes.map((shape, index) => [fileOf(shape, index), shape.text]);
    folder = writeApp({ ...Object.fromEntries(files), 'main.mjs': main });
    const bare = spawnSync(process.execPath, ['--no-warnings', join(folder, 'main.mjs')], {
      encoding: 'utf8',
    });
    assert.equal(bare.status, 0, bare.stderr);
    without = printed(bare.stdout);
    const ids = shapes.flatMap((shape, index) =>
      Object.keys(shape.targets).map((path) => idOf(shape, index, path)),
    );
    outcome = runApp(folder, ids);
    assert.equal(outcome.status, 0, outcome.stderr);
    under = printed(outcome.stdout);
  });

  shapes.forEach((shape, index) => {
    it(shape.title, () => {
      assert.ok(without.has(index), 'the shape itself ends');
      assert.deepEqual(under.get(index), without.get(index));
      for (const [path, wanted] of Object.entries(shape.targets)) {
        const id = idOf(shape, index, path);
        const { state, reason } = outcome.reports[id] ?? assert.fail(id);
        const [check] = inspect(
          [
            {
              id,
              module: `./${fileOf(shape, index)}`,
              functionPath: path,
              makePlan: () => ({ id }) as never,
            },
          ],
          { baseDir: folder },
        );
        const told = `${path}: ${reason}; svc check: ${check?.reason}`;
        assert.equal(outcome.calls[id] ?? 0, wanted === 'failed' ? 0 : wanted, told);
        assert.equal(state, wanted === 'failed' ? 'failed' : 'patched', told);
        assert.equal(check?.state, wanted === 'failed' ? 'failed' : 'found', told);
      }
    });
  });
});
