import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** What a run of `npm test` leaves, until the next one. */
export const resultsFolder: string = resolve(import.meta.dirname, '../.cache/test');

const countsFile = join(resultsFolder, 'counts.ndjson');
/** Where suites that could not run say why. */
export const skipsFile: string = join(resultsFolder, 'skips.ndjson');

/** Where each run leaves what failed, to be said once more at the end. */
export const failuresFile: string = join(resultsFolder, 'failures.ndjson');

/** Where each run leaves how long its files of tests took. */
export const timesFile: string = join(resultsFolder, 'times.ndjson');

/** Where one mocha run leaves its counts (`test/support/reporter.ts`). */
export function countsFileOf(title: string): string {
  return join(resultsFolder, `counts-${title.replace(/\W+/g, '-')}.ndjson`);
}

export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

export interface Skip {
  readonly suite: string;
  readonly reason: string;
  readonly remedy: string;
}

export interface Failure {
  /** Which run, where there are several: `Node 26, OpenTelemetry 3.x`. */
  readonly run?: string;
  readonly title: string;
  readonly error?: string;
  /** It was tried once more: another line says so where that failed as well. */
  readonly again?: boolean;
}

/**
 * For mocha, over tests of servers, browsers and whole processes on machines with much else to do: one that fails is tried once
 * more, and the end of the output names it.
 */
export const ONCE_MORE: readonly string[] = ['--retries', '1'];

/** Forgets what earlier runs left. */
export function startResults(): void {
  rmSync(resultsFolder, { recursive: true, force: true });
  mkdirSync(resultsFolder, { recursive: true });
}

export function addCounts(counts: Counts): void {
  mkdirSync(resultsFolder, { recursive: true });
  appendFileSync(countsFile, `${JSON.stringify(counts)}\n`);
}

/** @param file of one mocha run; default: all that was counted since the start */
export function totalCounts(file: string = countsFile): Counts {
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const { passed, failed, skipped } of readLines<Counts>(file)) {
    total.passed += passed;
    total.failed += failed;
    total.skipped += skipped;
  }
  return total;
}

export function skippedSuites(): Skip[] {
  return readLines<Skip>(skipsFile);
}

export function addFailure(failure: Failure): void {
  mkdirSync(resultsFolder, { recursive: true });
  appendFileSync(failuresFile, `${JSON.stringify(failure)}\n`);
}

/** Everything that failed since the start, or failed at first, a line each. */
export function failureLines(): string {
  return readLines<Failure>(failuresFile)
    .map(
      ({ run, title, error, again }) =>
        `${again ? 'tried again' : 'failed'}: ${[run, title, error].filter(Boolean).join(': ')}\n`,
    )
    .join('');
}

/** The files of tests that took longest, over all runs since the start, a line each. */
export function slowestLines(count: number): string {
  const seconds = new Map<string, number>();
  for (const time of readLines<{ file: string; seconds: number }>(timesFile))
    seconds.set(time.file, (seconds.get(time.file) ?? 0) + time.seconds);
  return [...seconds]
    .sort(([, a], [, b]) => b - a)
    .slice(0, count)
    .map(([file, total]) => `slow: ${total} s in ${file}\n`)
    .join('');
}

/** The line that CI reads. */
export function closingLine({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

function readLines<T>(file: string): T[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as T);
}
