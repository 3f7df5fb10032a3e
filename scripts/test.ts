import { spawnSync } from 'node:child_process';
import { delimiter, join, resolve } from 'node:path';
import {
  addCounts,
  closingLine,
  countsFile,
  skippedSuites,
  skipsFile,
  startResults,
  totalCounts,
} from './test-results.ts';

// `npm test`: lint, types, build, package checks and the everyday suite, the real servers included.
// `npm test -- <mocha arguments>` runs only mocha, with these arguments, over the package as it was built last.
const root = resolve(import.meta.dirname, '..');
const only = process.argv.slice(2);
const env = {
  ...process.env,
  PATH: `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`,
  SVC_TEST_COUNTS: countsFile,
  SVC_TEST_SKIPS: skipsFile,
};

function run(title: string, command: string, ...args: string[]): boolean {
  const started = performance.now();
  process.stdout.write(`\n== ${title}\n`);
  const { status } = spawnSync(command, args, { cwd: root, env, stdio: 'inherit' });
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  process.stdout.write(`== ${title}: ${status === 0 ? 'ok' : 'FAILED'} in ${seconds} s\n`);
  return status === 0;
}

const checks: [title: string, command: string, ...args: string[]][] = [
  ['lint', 'biome', 'check', '--error-on-warnings', '.'],
  ['types', 'tsc', '--noEmit'],
  ['build', 'npm', 'run', '--silent', 'build'],
  ['package', 'publint', '--strict'],
  ['types of the package', 'attw', '--pack', '.', '--profile', 'node16', '--quiet'],
];

startResults();
const failed =
  only.length > 0 ? [] : checks.filter(([title, command, ...args]) => !run(title, command, ...args));
if (only.length === 0)
  addCounts({ passed: checks.length - failed.length, failed: failed.length, skipped: 0 });
const suite = only.length > 0 ? only : ['test/**/*.test.ts'];
const suiteOk = run('suite', 'mocha', '--reporter', './test/support/reporter.ts', ...suite);
// Mocha that could not even start has counted nothing.
if (!suiteOk && totalCounts().failed === failed.length) addCounts({ passed: 0, failed: 1, skipped: 0 });

for (const { suite: name, reason, remedy } of skippedSuites()) {
  process.stdout.write(`\nnot run: ${name}: ${reason}. To run it: ${remedy}`);
}
for (const [title] of failed) process.stdout.write(`\nfailed: ${title}`);
const total = totalCounts();
process.stdout.write(`\n${closingLine(total)}\n`);
process.exitCode = total.failed === 0 && suiteOk ? 0 : 1;
