import { globSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

// What decides where a suite of test/e2e runs: what its subject hangs on.
//
// - Node's loader, its hooks, its streams or the end of a process: every Node of the matrix. So is whatever is not named here.
// - OpenTelemetry: on the second line as well, on the newest Node of each line. Forms and toolchains capture in the same way
//   with both lines, and have been through it with the newer one.
// - What an ORM or a driver sends, what lies on disk, what Node says of a text it cannot read, what goes to a Kafka that is killed
//   or hangs, what a configuration says, what a framework or a bundler does, and what svc writes to its log: the newest Node of
//   each line. How drivers are loaded is held on every Node by outbox/outbox.test.ts and telemetry/drivers.test.ts, how files of
//   each form are loaded by forms/, install/ and the other toolchains. Events go to a real Kafka there in preload/flush,
//   process-end, tracing and worker-ends.
// - Neither: `npm test` has run it, with the Node of the tests.
const root = resolve(import.meta.dirname, '..');

/** The newest Node of each line. */
export const NEWEST_NODES = ['22', '24', '26'];

const MEETS_OTEL = ['install', 'metrics', 'preload', 'telemetry'];

const ONCE_A_LINE = [
  'context/adapters.test.ts',
  'context/users.test.ts',
  'outbox/crud.test.ts',
  'outbox/functions.test.ts',
  'outbox/sqlite/late-driver.test.ts',
  'metrics/consumed.test.ts',
  'metrics/exporters.test.ts',
  'metrics/prometheus.test.ts',
  'metrics/several-processes.test.ts',
  'preload/bad-input.test.ts',
  'preload/config-sources.test.ts',
  'preload/delivery.test.ts',
  'preload/hung-broker.test.ts',
  'preload/log-lines.test.ts',
  'preload/required.test.ts',
  'preload/secrets.test.ts',
  'preload/switches.test.ts',
  'recovery/backup.test.ts',
  'recovery/recovery-end.test.ts',
  'telemetry/sdk-file.test.ts',
  'telemetry/sdk-input.test.ts',
  'toolchains/bundlers.test.ts',
  'toolchains/key-service.test.ts',
  'toolchains/nest.test.ts',
  'toolchains/nextjs.test.ts',
];

/** What they look at hangs on package managers, commands, documents, databases or svc's source, which are the same whatever Node is under test. */
const ONCE = [
  'examples/every-example.test.ts',
  'examples/getting-started.test.ts',
  'forms/capture-table.test.ts',
  'install/copies.test.ts',
  'install/package-managers.test.ts',
  'outbox/inbox-programs.test.ts',
  'outbox/joins-table.test.ts',
  'payloads/json-libraries.test.ts',
  'preload/files-of-an-event.test.ts',
  'running-cli.test.ts',
  'telemetry/demo.test.ts',
];

export interface Combination {
  /** As asked for: `22`, `22.15.0`. */
  readonly node: string;
  readonly otel: string;
}

/**
 * The files of test/e2e that a combination runs.
 * @param isTested `npm test` has just run on this very Node: what it has run is left out
 */
export function suitesOf({ node, otel }: Combination, isTested: boolean): string[] {
  const named = [...ONCE, ...ONCE_A_LINE];
  const all = globSync('**/*.test.ts', { cwd: resolve(root, 'test/e2e') }).map((path) =>
    path.replaceAll('\\', '/'),
  );
  const missing = named.filter((path) => !all.includes(path));
  if (missing.length > 0) throw new Error(`not in test/e2e: ${missing.join(', ')}`);
  const runs = (path: string): boolean => {
    if (ONCE.includes(path)) return false;
    if (otel === '2') return MEETS_OTEL.includes(dirname(path)) && asksForLine(path);
    if (isTested) return isWiderInMatrix(path);
    return NEWEST_NODES.includes(node) || !ONCE_A_LINE.includes(path);
  };
  return all
    .filter(runs)
    .sort()
    .map((path) => `test/e2e/${path}`);
}

/** Installs packages of OpenTelemetry, of the line under test; what does not is the same with both. */
const asksForLine = (path: string): boolean => /\botel\b|telemetryApp/.test(textOf(path));

const isWiderInMatrix = (path: string): boolean => /\bisMatrix\b/.test(textOf(path));

const textOf = (path: string): string => readFileSync(resolve(root, 'test/e2e', path), 'utf8');
