import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { cacheFolder, ensureFolder } from './services/cache.ts';
import { together } from './tasks.ts';
import { closingLine, countsFileOf, totalCounts } from './test-results.ts';

/** What svc changes in place, or calls the insides of. */
const patched = ['pg', 'mysql2', 'better-sqlite3', 'kafkajs', '@platformatic/kafka'];
const runTimeoutMs = 20 * 60_000;
const npmTimeoutMs = 5 * 60_000;

const HELP = `Usage: npm run test:latest -- [mocha arguments]

Runs the contract suites (test/contract) with the newest release of each package that svc changes in place:
${patched.join(', ')}. They are installed below the cache folder; package.json stays as it is.

Mocha arguments narrow it down: npm run test:latest -- test/contract/pg.test.ts -g 'a client'
`;

const root = resolve(import.meta.dirname, '..');

function npm(cwd: string, ...args: string[]): string {
  return execFileSync('npm', args, {
    ...{ cwd, encoding: 'utf8', timeout: npmTimeoutMs },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

/** The folder that has these versions, made once. */
function install(versions: Readonly<Record<string, string>>): Promise<string> {
  return ensureFolder(cacheFolder('latest', Object.values(versions).join('-')), async (folder) => {
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies: versions }));
    npm(folder, 'install', '--no-audit', '--no-fund', '--no-package-lock', '--loglevel=error');
  });
}

async function main(): Promise<void> {
  const given = process.argv.slice(2);
  if (given.includes('--help')) return void process.stdout.write(HELP);
  const versions = Object.fromEntries(
    patched.map((name) => [name, npm(root, 'view', name, 'version').trim()] as const),
  );
  const title = Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ');
  const folder = await install(versions);
  const counts = countsFileOf('latest');
  rmSync(counts, { force: true });
  const [result] = await together(
    [
      {
        title,
        command: 'mocha',
        args: [
          '--reporter',
          './test/support/reporter.ts',
          ...(given.length > 0 ? given : ['test/contract/*.test.ts']),
        ],
        cwd: root,
        timeoutMs: runTimeoutMs,
        env: {
          ...process.env,
          PATH: `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`,
          NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --import ${join(import.meta.dirname, 'latest-packages.ts')}`,
          SVC_LATEST_FOLDER: folder,
          SVC_LATEST_PACKAGES: patched.join(','),
          SVC_TEST_COUNTS: counts,
        },
      },
    ],
    { live: true },
  );
  const found = totalCounts(counts);
  const total = result?.ok || found.failed > 0 ? found : { ...found, failed: 1 };
  process.stdout.write(`\nwith ${title}\n${closingLine(total)}\n`);
  process.exitCode = total.failed === 0 ? 0 : 1;
}

await main();
