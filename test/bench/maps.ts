import { execFileSync } from 'node:child_process';
import { realpathSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { buildSync } from 'esbuild';
import type { Bench } from '../../scripts/bench.ts';
import { sources } from '../capture/source/maps/shop-source.ts';
import { writeApp } from '../capture/source/run-app.ts';

const rounds = 11;
const root = resolve(import.meta.dirname, '../..');
const packages = {
  small: ['kafkajs'],
  middle: ['kafkajs', '@aws-sdk/client-s3'],
  large: ['kafkajs', '@aws-sdk/client-s3', 'typescript'],
};

/** What a start pays for a map that holds a target, and for one that does not: minified bundles of esbuild, a process for each reading. */
export const bench: Bench = async (progress) =>
  Object.entries(packages).flatMap(([name, all]) => {
    const imports = all.map((each, index) => `import * as p${index} from '${each}'; console.log(p${index});`);
    const folder = realpathSync(
      writeApp({
        ...sources,
        node_modules: `->${join(root, 'node_modules')}`,
        'src/all.ts': `import './main.js';\n${imports.join('\n')}`,
      }),
    );
    const file = join(folder, 'dist/all.cjs');
    buildSync({
      ...{
        absWorkingDir: folder,
        entryPoints: ['src/all.ts'],
        outfile: file,
        format: 'cjs',
        platform: 'node',
      },
      ...{ bundle: true, minify: true, sourcemap: 'linked', logLevel: 'error' },
    });
    const megabytes = statSync(`${file}.map`).size / 1_000_000;
    progress(`${name}: a map of ${megabytes.toFixed(1)} MB`);
    // Node, where it strips types, compiles its own parser meanwhile.
    const reading = join(folder, 'reading.mjs');
    buildSync({
      ...{ entryPoints: [join(import.meta.dirname, 'maps-case.ts')], outfile: reading },
      ...{ format: 'esm', platform: 'node', bundle: true, logLevel: 'error' },
    });
    return ['orders.ts', 'none.ts'].flatMap((source) => {
      const args = [reading, join(root, 'dist/read-map.cjs'), file, join(folder, 'src', source)];
      const times = Array.from(
        { length: rounds },
        () => JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as [number, number],
      );
      return ['ms for each MB', 'ms of CPU for each MB'].map((unit, which) => {
        const sorted = times.map((both) => both[which] ?? Number.NaN).sort((a, b) => a - b);
        const median = sorted[(rounds - 1) / 2] ?? Number.NaN;
        return {
          case: `${name}-${source === 'orders.ts' ? 'with-target' : 'without'}`,
          value: Math.round((median / megabytes) * 10) / 10,
          unit,
        };
      });
    });
  });
