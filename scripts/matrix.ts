import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { pack } from '../test/support/packed.ts';
import { ensureRuntime } from './runtimes.ts';
import { addCounts, addFailure, type Counts, closingLine, failuresFile } from './test-results.ts';

const NODES = ['22.15.0', '22', '24.0.0', '24', '26'];
/** The older line where it is most likely met: on the newest Node of each line. */
const SECOND_LINE_NODES = ['22', '24', '26'];
const RUN_TIMEOUT_MS = 15 * 60_000;

const HELP = `Usage: npm run test:matrix -- [options] [mocha arguments]

Runs the end-to-end suites (test/e2e) with the packed svc on every supported Node and on both lines of OpenTelemetry.
Runtimes are fetched on demand (about 100 MB each, once, into .cache/runtimes), and so are OpenTelemetry and the toolchains.

  --node <versions>   e.g. 22.15.0,26   default: ${NODES.join(',')}
  --otel <lines>      3 = api 1.10, SDK 3.x; 2 = api 1.9, SDK 2.x
                      default: 3 everywhere, 2 on ${SECOND_LINE_NODES.join(', ')} as well
  --help

Mocha arguments narrow it down: npm run test:matrix -- --node 26 -- test/e2e/forms/forms.test.ts -g esm-factory
`;

const root = resolve(import.meta.dirname, '..');

interface Combination {
  readonly node: string;
  readonly otel: string;
}

function combinationsOf(nodes: readonly string[], otel: readonly string[] | undefined): Combination[] {
  return nodes.flatMap((node) =>
    (otel ?? (SECOND_LINE_NODES.includes(node) ? ['3', '2'] : ['3'])).map((line) => ({ node, otel: line })),
  );
}

/** One mocha run; what it counted, or one failure where it did not come to counting. */
function run(
  title: string,
  { node, otel }: Combination,
  tarball: string,
  mochaArguments: readonly string[],
): Counts {
  const folder = mkdtempSync(join(tmpdir(), 'svc-matrix-'));
  const counts = join(folder, 'counts.ndjson');
  try {
    const { status, error } = spawnSync(
      'mocha',
      ['--reporter', './test/support/reporter.ts', ...mochaArguments],
      {
        cwd: root,
        stdio: 'inherit',
        timeout: RUN_TIMEOUT_MS,
        env: {
          ...process.env,
          PATH: `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`,
          SVC_E2E_MATRIX: '1',
          SVC_E2E_NODE: node,
          SVC_E2E_OTEL: otel,
          SVC_TARBALL: tarball,
          SVC_TEST_COUNTS: counts,
          SVC_TEST_FAILURES: failuresFile,
          SVC_TEST_RUN: title,
        },
      },
    );
    const counted = existsSync(counts) ? (JSON.parse(readFileSync(counts, 'utf8')) as Counts) : undefined;
    if (error) process.stderr.write(`${error.message}\n`);
    if (counted !== undefined && (status === 0 || counted.failed > 0)) return counted;
    addFailure({ run: title, title: 'mocha did not come to its end' });
    return { passed: 0, skipped: 0, ...counted, failed: 1 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
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
  const suites = positionals.length > 0 ? positionals : ['test/e2e/**/*.test.ts'];

  const total: Counts = { passed: 0, failed: 0, skipped: 0 };
  const summary: string[] = [];
  for (const combination of combinationsOf(nodes, values.otel?.split(','))) {
    const title = `Node ${combination.node}, OpenTelemetry ${combination.otel}.x`;
    process.stdout.write(`\n== ${title}\n`);
    const started = performance.now();
    const counts = run(title, combination, tarball, suites);
    const seconds = ((performance.now() - started) / 1000).toFixed(0);
    total.passed += counts.passed;
    total.failed += counts.failed;
    total.skipped += counts.skipped;
    summary.push(`${title}: ${closingLine(counts)} in ${seconds} s`);
    process.stdout.write(`== ${summary.at(-1)}\n`);
  }
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
