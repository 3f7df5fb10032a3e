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
  timesFile,
  totalCounts,
} from './test-results.ts';
import { endToEndFiles, everydayFiles } from './test-suites.ts';

// `npm test`: lint, types, build, package checks and the everyday suites, on one real Kafka and PostgreSQL.
// `npm run test:e2e`: all other suites. `-- --after-test`: `npm test` has just run, and its build and counts are kept.
// `npm test -- <mocha arguments>` runs only mocha, with these arguments, over the package as it was built last.
const root = resolve(import.meta.dirname, '..');
const isEndToEnd = process.argv[2] === '--e2e';
const isAfterTest = isEndToEnd && process.argv[3] === '--after-test';
const only = isEndToEnd ? [] : process.argv.slice(2);
/** What runs end to end waits more than it works: for leases, time-outs and servers. */
const AT_ONCE = isEndToEnd ? 4 : 3;
const env = {
  ...process.env,
  PATH: `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`,
  SVC_TEST_SKIPS: skipsFile,
  SVC_TEST_FAILURES: failuresFile,
  SVC_TEST_TIMES: timesFile,
  // Many tests start svc from its source: from the second on, Node need not strip and compile it again.
  NODE_COMPILE_CACHE: join(resultsFolder, 'compiled'),
};
const task = (title: string, command: string, ...args: string[]): Task => ({
  ...{ title, command, args, cwd: root, env },
});

const build = task('build', 'npm', 'run', '--silent', 'build');
const checks = [
  task('lint', 'biome', 'check', '--error-on-warnings', '.'),
  task('prose', 'node', 'scripts/prose.ts'),
  task('types', 'tsc', '--noEmit'),
  task('types of the console', 'tsc', '--noEmit', '-p', 'console'),
];
// npm would build it once more before it packs it.
const packageChecks = [
  task('package', 'publint', '--strict'),
  task('types of the package', 'attw', '--pack', '.', '--profile', 'strict', '--quiet'),
].map((check) => ({ ...check, env: { ...env, npm_config_ignore_scripts: 'true' } }));

/**
 * Several runs of mocha side by side, as most tests wait for servers and processes; each run has servers of its own. What takes
 * longest comes first.
 */
function suites(): Task[] {
  if (only.length > 0) return [suite('suite', ...only)];
  return isEndToEnd ? endToEndSuites() : everydaySuites();
}

function everydaySuites(): Task[] {
  const files = everydayFiles();
  const onServers = files.filter((file) => /^test\/(integration|contract|adapters|consume)\//.test(file));
  const others = files.filter((file) => !onServers.includes(file));
  return [
    suite('the others', ...ONCE_MORE, ...others),
    suite(
      'contracts and adapters',
      ...ONCE_MORE,
      ...onServers.filter((file) => !file.startsWith('test/integration/')),
    ),
    suite('integration', ...ONCE_MORE, ...onServers.filter((file) => file.startsWith('test/integration/'))),
  ];
}

/** What takes longest comes first, so that none is left alone for long at the end. */
function endToEndSuites(): Task[] {
  const left = new Set(endToEndFiles());
  const take = (...beginnings: string[]): string[] => {
    const taken = [...left].filter((file) => beginnings.some((each) => file.startsWith(`test/${each}`)));
    for (const file of taken) left.delete(file);
    return taken;
  };
  // What does little but wait for leases to end, and for brokers that hang.
  const waiting = take(
    ...['adapters/kafka/group', 'integration/worker-ids', 'adapters/kafkajs/topic-reader-hang'],
    ...['e2e/preload/hung-broker', 'integration/caller-waits', 'integration/maintenance-freezes'],
    ...['integration/relay-freezes', 'integration/avro'],
    // Loads drivers whose source it has changed: in a process whose modules others have not.
    'integration/other-drivers',
  );
  const application = suite(
    'end to end, in an application',
    ...ONCE_MORE,
    ...take('e2e/preload', 'e2e/telemetry'),
  );
  const servers = suite('integration with other servers', ...ONCE_MORE, ...take('integration'));
  const endToEnd = suite('end to end, the others', ...ONCE_MORE, ...take('e2e'));
  const commands = suite(
    'adapters and the command line',
    ...ONCE_MORE,
    ...take('adapters', 'cli', 'contract', 'ops'),
  );
  const others = suite('the others end to end', ...ONCE_MORE, ...left);
  return [commands, suite('what waits', ...ONCE_MORE, ...waiting), servers, others, endToEnd, application];
}

function suite(title: string, ...args: string[]): Task {
  const one = task(title, 'mocha', '--reporter', './test/support/reporter.ts', ...args);
  return { ...one, env: { ...env, SVC_TEST_COUNTS: countsFileOf(title) } };
}

if (!isAfterTest) startResults();
function count(some: readonly Task[], results: readonly TaskResult[]): void {
  for (const [index, { ok }] of results.entries()) {
    addCounts({ passed: ok ? 1 : 0, failed: ok ? 0 : 1, skipped: 0 });
    if (!ok) addFailure({ title: (some[index] as Task).title });
  }
}

if (only.length === 0 && !isAfterTest) {
  const built = await together([build]);
  count([build], built);
}
const parts = suites();
// While suites wait for their servers.
const others = only.length === 0 && !isEndToEnd ? [...checks, ...packageChecks] : [];
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
