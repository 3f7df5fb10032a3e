import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { pack } from '../test/support/packed.ts';
import { ensureRuntime } from './runtimes.ts';
import { type Task, together } from './tasks.ts';
import {
  addCounts,
  addFailure,
  type Counts,
  closingLine,
  countsFileOf,
  failuresFile,
  totalCounts,
} from './test-results.ts';

const NODES = ['22.15.0', '22', '24.0.0', '24', '26'];
/** The older line where it is most likely met: on the newest Node of each line. */
const SECOND_LINE_NODES = ['22', '24', '26'];
/** What meets OpenTelemetry; forms, toolchains and databases have been through it with the newer line. */
const SECOND_LINE_SUITES = ['install', 'metrics', 'preload', 'telemetry'];
const RUN_TIMEOUT_MS = 20 * 60_000;
/** Most of these tests wait for one process. Each run has servers and folders of its own. */
const AT_ONCE = 2;

const HELP = `Usage: npm run test:matrix -- [options] [mocha arguments]

Runs the end-to-end suites (test/e2e) with the packed svc on every supported Node and on both lines of OpenTelemetry.
Runtimes are fetched on demand (about 100 MB each, once, into .cache/runtimes), and so are OpenTelemetry and the toolchains.

  --node <versions>   e.g. 22.15.0,26   default: ${NODES.join(',')}
  --otel <lines>      3 = api 1.10, SDK 3.x; 2 = api 1.9, SDK 2.x
                      default: 3 everywhere, 2 on ${SECOND_LINE_NODES.join(', ')} as well, there only
                      ${SECOND_LINE_SUITES.join(', ')}
  --help

Mocha arguments narrow it down: npm run test:matrix -- --node 26 -- test/e2e/forms/forms.test.ts -g esm-factory
`;

const root = resolve(import.meta.dirname, '..');

interface Combination {
  readonly node: string;
  readonly otel: string;
}

/** Neighbours run side by side: where they are of different lines, they install different things. */
function combinationsOf(nodes: readonly string[], otel: readonly string[] | undefined): Combination[] {
  const linesOf = (node: string): readonly string[] =>
    otel ?? (SECOND_LINE_NODES.includes(node) ? ['3', '2'] : ['3']);
  const ofLine = (line: string): Combination[] =>
    nodes.filter((node) => linesOf(node).includes(line)).map((node) => ({ node, otel: line }));
  const [newer, older] = [ofLine('3'), ofLine('2')];
  const places = Array.from({ length: Math.max(newer.length, older.length) }, (_, place) => place);
  return places.flatMap((place) => [newer[place], older[place]].filter((each) => each !== undefined));
}

/** One mocha run. */
function taskOf({ node, otel }: Combination, tarball: string, mochaArguments: readonly string[]): Task {
  const title = `Node ${node}, OpenTelemetry ${otel}.x`;
  return {
    title,
    command: 'mocha',
    args: ['--reporter', './test/support/reporter.ts', ...mochaArguments],
    cwd: root,
    timeoutMs: RUN_TIMEOUT_MS,
    env: {
      ...process.env,
      PATH: `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`,
      SVC_E2E_MATRIX: '1',
      SVC_E2E_NODE: node,
      SVC_E2E_OTEL: otel,
      SVC_TARBALL: tarball,
      SVC_TEST_COUNTS: countsFileOf(title),
      SVC_TEST_FAILURES: failuresFile,
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
    options: { node: { type: 'string' }, otel: { type: 'string' }, help: { type: 'boolean' } },
  });
  if (values.help) return void process.stdout.write(HELP);
  const nodes = values.node?.split(',') ?? NODES;
  for (const node of nodes) await ensureRuntime(node, (line) => process.stdout.write(`${line}\n`));
  if (process.env.SVC_TARBALL === undefined) build();
  const tarball = pack();
  const tasks = combinationsOf(nodes, values.otel?.split(',')).map((each) => {
    const isChoice = values.otel === undefined && each.otel === '2';
    const folders = isChoice ? SECOND_LINE_SUITES : ['**'];
    const suites = folders.map((folder) => `test/e2e/${folder}/**/*.test.ts`);
    return taskOf(each, tarball, positionals.length > 0 ? positionals : suites);
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

function build(): void {
  const { status } = spawnSync('npm', ['run', '--silent', 'build'], {
    cwd: root,
    stdio: 'inherit',
    timeout: RUN_TIMEOUT_MS,
  });
  if (status !== 0) throw new Error('the build failed');
}

main().catch((error: unknown) => {
  const message = error instanceof Error ? error.message : String(error);
  process.stderr.write(`${message}\n`);
  addFailure({ run: 'matrix', title: message });
  addCounts({ passed: 0, failed: 1, skipped: 0 });
  process.stdout.write(`${closingLine({ passed: 0, failed: 1, skipped: 0 })}\n`);
  process.exitCode = 1;
});
