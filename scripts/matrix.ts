import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { pack } from '../test/support/packed.ts';
import { build } from './build.ts';
import { type Combination, NEWEST_NODES, suitesOf } from './matrix-suites.ts';
import { ensureRuntime } from './runtimes.ts';
import { type Task, together } from './tasks.ts';
import {
  addCounts,
  addFailure,
  type Counts,
  closingLine,
  countsFileOf,
  failuresFile,
  ONCE_MORE,
  resultsFolder,
  timesFile,
  totalCounts,
} from './test-results.ts';

const NODES = ['22.15.0', '22', '24.0.0', '24', '26'];
const RUN_TIMEOUT_MS = 40 * 60_000;
/** Most of these tests wait for one process, so that two cores have work for three. Each run has servers and folders of its own. */
const AT_ONCE = 3;

const HELP = `Usage: npm run test:matrix -- [options] [mocha arguments]

Runs the end-to-end suites (test/e2e) with the packed svc on every supported Node and on both lines of OpenTelemetry.
Runtimes are fetched on demand (about 100 MB each, once, into .cache/runtimes), and so are OpenTelemetry and the toolchains.

  --node <versions>   e.g. 22.15.0,26   default: ${NODES.join(',')}
  --otel <lines>      3 = api 1.10, SDK 3.x; 2 = api 1.9, SDK 2.x
                      default: 3 everywhere, 2 on ${NEWEST_NODES.join(', ')} as well
  --after-test        \`npm test\` has just run: what it built is taken, and what it ran on the same Node left out
  --help

Which suites run where, and why: scripts/matrix-suites.ts.

Mocha arguments narrow it down: npm run test:matrix -- --node 26 -- test/e2e/forms/forms.test.ts -g esm-factory
`;

const root = resolve(import.meta.dirname, '..');

/** The longest first, so that no run is left alone at the end: the newest Node has databases and launchers of its own. */
function combinationsOf(nodes: readonly string[], otel: readonly string[] | undefined): Combination[] {
  const linesOf = (node: string): readonly string[] =>
    otel ?? (NEWEST_NODES.includes(node) ? ['3', '2'] : ['3']);
  const ofLine = (line: string): Combination[] =>
    nodes
      .filter((node) => linesOf(node).includes(line))
      .map((node) => ({ node, otel: line }))
      .reverse();
  return [...ofLine('3'), ...ofLine('2')];
}

/** More files than that are two runs of mocha, so that no lane is left alone with them at the end. */
const MOST_FILES = 20;

/** The files of a combination, in one or two parts. Files beside each other are alike, and go to different parts. */
function partsOf(files: readonly string[]): string[][] {
  if (files.length <= MOST_FILES) return [[...files]];
  return [0, 1].map((part) => files.filter((_, index) => index % 2 === part));
}

/** One mocha run. */
function taskOf(
  { node, otel }: Combination,
  part: string,
  tarball: string,
  mochaArguments: readonly string[],
): Task {
  const title = `Node ${node}, OpenTelemetry ${otel}.x${part}`;
  return {
    title,
    command: 'mocha',
    args: ['--reporter', './test/support/reporter.ts', ...ONCE_MORE, ...mochaArguments],
    cwd: root,
    timeoutMs: RUN_TIMEOUT_MS,
    env: {
      ...process.env,
      PATH: `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`,
      // Each test starts processes: Node need not compile svc anew in each of them.
      NODE_COMPILE_CACHE: join(resultsFolder, 'compiled'),
      SVC_E2E_MATRIX: '1',
      SVC_E2E_NODE: node,
      SVC_E2E_OTEL: otel,
      SVC_TARBALL: tarball,
      SVC_TEST_COUNTS: countsFileOf(title),
      SVC_TEST_FAILURES: failuresFile,
      SVC_TEST_TIMES: timesFile,
      SVC_TEST_RUN: title,
    },
  };
}

/** What it counted, or one failure where it did not come to counting. */
function countsOf(title: string, ok: boolean): Counts {
  const counts = totalCounts(countsFileOf(title));
  if (ok || counts.failed > 0) return counts;
  addFailure({ run: title, title: 'mocha did not come to its end' });
  return { ...counts, failed: 1 };
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      node: { type: 'string' },
      otel: { type: 'string' },
      'after-test': { type: 'boolean', default: false },
      help: { type: 'boolean' },
    },
  });
  if (values.help) return void process.stdout.write(HELP);
  const nodes = values.node?.split(',') ?? NODES;
  const log = (line: string): void => void process.stdout.write(`${line}\n`);
  const runtimes = await Promise.all(nodes.map((node) => ensureRuntime(node, log)));
  if (!values['after-test']) build();
  const tarball = pack();
  const tasks = combinationsOf(nodes, values.otel?.split(',')).flatMap((each) => {
    const runtime = runtimes[nodes.indexOf(each.node)] as string;
    const isTested = values['after-test'] && versionOf(runtime) === process.version;
    if (positionals.length > 0) return [taskOf(each, '', tarball, positionals)];
    const parts = partsOf(suitesOf(each, isTested));
    return parts.map((files, index) =>
      taskOf(each, parts.length > 1 ? `, part ${index + 1}` : '', tarball, files),
    );
  });
  if (tasks.length === 0) throw new Error('nothing to run: --otel takes 2 and 3');
  for (const { title } of tasks) rmSync(countsFileOf(title), { force: true });
  const results = await together(tasks, { live: true, atOnce: AT_ONCE });
  const total: Counts = { passed: 0, failed: 0, skipped: 0 };
  const summary = results.map(({ ok, seconds }, index) => {
    const { title } = tasks[index] as Task;
    const counts = countsOf(title, ok);
    total.passed += counts.passed;
    total.failed += counts.failed;
    total.skipped += counts.skipped;
    return `${title}: ${closingLine(counts)} in ${seconds} s`;
  });
  addCounts(total);
  process.stdout.write(`\n${summary.join('\n')}\n${closingLine(total)}\n`);
  process.exitCode = total.failed === 0 ? 0 : 1;
}

const versionOf = (runtime: string): string =>
  execFileSync(runtime, ['--version'], { encoding: 'utf8', timeout: 20_000 }).trim();

main().catch((error: unknown) => {
  const message = error instanceof Error ? error.message : String(error);
  process.stderr.write(`${message}\n`);
  addFailure({ run: 'matrix', title: message });
  addCounts({ passed: 0, failed: 1, skipped: 0 });
  process.stdout.write(`${closingLine({ passed: 0, failed: 1, skipped: 0 })}\n`);
  process.exitCode = 1;
});
