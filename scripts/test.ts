import { delimiter, join, resolve } from 'node:path';
import { type Task, type TaskResult, together } from './tasks.ts';
import {
  addCounts,
  addFailure,
  closingLine,
  countsFileOf,
  failureLines,
  failuresFile,
  ONCE_MORE,
  resultsFolder,
  skippedSuites,
  skipsFile,
  startResults,
  totalCounts,
} from './test-results.ts';

// `npm test`: lint, types, build, package checks and the everyday suite, the real servers included.
// `npm test -- <mocha arguments>` runs only mocha, with these arguments, over the package as it was built last.
const root = resolve(import.meta.dirname, '..');
const only = process.argv.slice(2);
const AT_ONCE = 3;
const env = {
  ...process.env,
  PATH: `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`,
  SVC_TEST_SKIPS: skipsFile,
  SVC_TEST_FAILURES: failuresFile,
  // Many tests start svc from its source: from the second on, Node need not strip and compile it again.
  NODE_COMPILE_CACHE: join(resultsFolder, 'compiled'),
};
const task = (title: string, command: string, ...args: string[]): Task => ({
  ...{ title, command, args, cwd: root, env },
});

const checks = [
  task('build', 'npm', 'run', '--silent', 'build'),
  task('lint', 'biome', 'check', '--error-on-warnings', '.'),
  task('types', 'tsc', '--noEmit'),
  task('types of the console', 'tsc', '--noEmit', '-p', 'console'),
];
// npm would build it once more before it packs it.
const packageChecks = [
  task('package', 'publint', '--strict'),
  task('types of the package', 'attw', '--pack', '.', '--profile', 'strict', '--quiet'),
].map((check) => ({ ...check, env: { ...env, npm_config_ignore_scripts: 'true' } }));

/**
 * Three runs of mocha side by side, as most tests wait for servers and processes; each run has servers of its own. There are
 * more parts than three, so that none is left alone for long at the end; what takes longest comes first.
 */
function suites(): Task[] {
  if (only.length > 0) return [suite('suite', ...only)];
  // What does little but wait for leases to end, and for brokers that hang.
  const waiting = filesOf('adapters/kafka/group', 'integration/worker-ids').concat(
    ['adapters/kafkajs/topic-reader-hang', 'e2e/preload/hung-broker', 'integration/caller-waits']
      .concat('integration/maintenance-freezes', 'integration/relay-freezes', 'integration/avro*')
      // Loads drivers whose source it has changed: in a process whose modules others have not.
      .concat('integration/other-drivers')
      .map((file) => `test/${file}.test.ts`),
  );
  const folders = {
    'end to end, in an application': ['e2e/preload', 'e2e/telemetry'],
    integration: ['integration'],
    'end to end, the others': ['e2e'],
    'adapters and the command line': ['adapters', 'cli', 'contract', 'ops'],
  };
  const parts: Task[] = [];
  let taken = [...waiting];
  for (const [title, each] of Object.entries(folders)) {
    parts.push(suite(title, ...ONCE_MORE, ...filesOf(...each), ...without(taken)));
    taken = [...taken, ...filesOf(...each)];
  }
  return [
    ...parts.slice(0, 2),
    suite('what waits', ...ONCE_MORE, ...waiting),
    ...parts.slice(2),
    suite('the others', ...ONCE_MORE, 'test/**/*.test.ts', ...without(taken)),
  ];
}

const filesOf = (...folders: string[]): string[] => folders.map((folder) => `test/${folder}/**/*.test.ts`);
const without = (files: readonly string[]): string[] => files.flatMap((each) => ['--ignore', each]);

function suite(title: string, ...args: string[]): Task {
  const one = task(title, 'mocha', '--reporter', './test/support/reporter.ts', ...args);
  return { ...one, env: { ...env, SVC_TEST_COUNTS: countsFileOf(title) } };
}

startResults();
async function runChecks(some: readonly Task[]): Promise<void> {
  count(some, await together(some));
}
function count(some: readonly Task[], results: readonly TaskResult[]): void {
  for (const [index, { ok }] of results.entries()) {
    addCounts({ passed: ok ? 1 : 0, failed: ok ? 0 : 1, skipped: 0 });
    if (!ok) addFailure({ title: (some[index] as Task).title });
  }
}

if (only.length === 0) await runChecks(checks);
const parts = suites();
const others = only.length === 0 ? packageChecks : [];
const results = await together([...parts, ...others], { live: true, atOnce: AT_ONCE });
count(others, results.splice(parts.length));
for (const [index, { ok }] of results.entries()) {
  const { title } = parts[index] as Task;
  const counts = totalCounts(countsFileOf(title));
  // Mocha that could not even start, or did not come to its end, has counted nothing.
  const unheard = !ok && counts.failed === 0;
  addCounts(unheard ? { ...counts, failed: 1 } : counts);
  if (unheard) addFailure({ title, error: 'mocha did not come to its end' });
}

for (const { suite: name, reason, remedy } of skippedSuites()) {
  process.stdout.write(`\nnot run: ${name}: ${reason}. To run it: ${remedy}`);
}
const total = totalCounts();
process.stdout.write(`\n${failureLines()}${closingLine(total)}\n`);
process.exitCode = total.failed === 0 ? 0 : 1;
