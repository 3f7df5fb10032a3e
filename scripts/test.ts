import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';

// `npm test`: lint, types, build, package checks and the everyday suite, the real servers included.
// `npm test -- <mocha arguments>` runs only the suite, with these arguments.
const root = resolve(import.meta.dirname, '..');
const results = join(root, '.cache', 'test');
const counts = join(results, 'counts.ndjson');
const skips = join(results, 'skips.ndjson');
const only = process.argv.slice(2);

const env = {
  ...process.env,
  PATH: `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`,
  SVC_TEST_COUNTS: counts,
  SVC_TEST_SKIPS: skips,
};

function run(title: string, command: string, ...args: string[]): boolean {
  const started = performance.now();
  process.stdout.write(`\n== ${title}\n`);
  const { status } = spawnSync(command, args, { cwd: root, env, stdio: 'inherit' });
  process.stdout.write(
    `== ${title}: ${status === 0 ? 'ok' : 'FAILED'} in ${((performance.now() - started) / 1000).toFixed(1)} s\n`,
  );
  return status === 0;
}

function readLines<T>(file: string): T[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as T);
}

mkdirSync(results, { recursive: true });
for (const file of [counts, skips]) rmSync(file, { force: true });

const checks: [string, string, ...string[]][] = [
  ['lint', 'biome', 'ci', '--error-on-warnings', '.'],
  ['types', 'tsc', '--noEmit'],
  ['build', 'tsdown', '--logLevel', 'warn'],
  ['package', 'publint', '--strict'],
  ['types of the package', 'attw', '--pack', '.', '--profile', 'node16', '--quiet'],
];
const failedChecks =
  only.length > 0 ? [] : checks.filter(([title, command, ...args]) => !run(title, command, ...args));
const suite = only.length > 0 ? only : ['--recursive', 'test/**/*.test.ts', '--ignore', 'test/matrix/**'];
const suiteOk = run('suite', 'mocha', '--reporter', './test/support/reporter.ts', ...suite);

const total = { passed: 0, failed: 0, skipped: 0 };
for (const count of readLines<typeof total>(counts)) {
  total.passed += count.passed;
  total.failed += count.failed;
  total.skipped += count.skipped;
}
total.passed += only.length > 0 ? 0 : checks.length - failedChecks.length;
total.failed += failedChecks.length;
if (!suiteOk && total.failed === 0) total.failed = 1;

for (const skip of readLines<{ suite: string; reason: string; remedy: string }>(skips)) {
  process.stdout.write(`\nnot run: ${skip.suite}: ${skip.reason}. ${skip.remedy}`);
}
for (const [title] of failedChecks) process.stdout.write(`\nfailed: ${title}`);
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
process.stdout.write(`\n${total.passed} passed, ${total.failed} failed${skipped}\n`);
process.exitCode = total.failed === 0 && suiteOk ? 0 : 1;
