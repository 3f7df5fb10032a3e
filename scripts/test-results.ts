import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

const folder = resolve(import.meta.dirname, '../.cache/test');

/** Where mocha runs leave their counts (`test/support/reporter.ts`) and suites that could not run say why. */
export const countsFile: string = join(folder, 'counts.ndjson');
export const skipsFile: string = join(folder, 'skips.ndjson');

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

/** Forgets what earlier runs left. */
export function startResults(): void {
  mkdirSync(folder, { recursive: true });
  for (const file of [countsFile, skipsFile]) rmSync(file, { force: true });
}

export function addCounts(counts: Counts): void {
  mkdirSync(folder, { recursive: true });
  appendFileSync(countsFile, `${JSON.stringify(counts)}\n`);
}

export function totalCounts(): Counts {
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const { passed, failed, skipped } of readLines<Counts>(countsFile)) {
    total.passed += passed;
    total.failed += failed;
    total.skipped += skipped;
  }
  return total;
}

export function skippedSuites(): Skip[] {
  return readLines<Skip>(skipsFile);
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
