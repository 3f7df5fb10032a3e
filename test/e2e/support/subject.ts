import { ensureRuntime } from '../../../scripts/runtimes.ts';
import type { Dependencies } from '../../support/packed.ts';

/** What the suites of this folder are run with: a version of Node and a line of OpenTelemetry. */
export interface Subject {
  /** Path of the Node binary. */
  readonly node: string;
  /** Without the `v`. */
  readonly version: string;
  readonly otel: OtelLine;
  /** Synchronous module hooks that can be relied on: Node 22.22.3, 24.11.1, 26 and later. */
  readonly hasSoundSyncHooks: boolean;
  /** Node runs TypeScript by itself: 22.18, 23.6 and later. */
  readonly stripsTypes: boolean;
  /** `npm run test:matrix`: everything. `npm test` runs a choice of the toolchains, which `isEveryday` marks. */
  readonly isMatrix: boolean;
}

export type OtelLine = 2 | 3;

/** The OpenTelemetry packages of each line; every application of these suites is installed with one of the two APIs. */
export const otelPackages: Readonly<Record<OtelLine, { api: Dependencies; auto: Dependencies }>> = {
  2: {
    api: { '@opentelemetry/api': '1.9.1' },
    auto: { '@opentelemetry/api': '1.9.1', '@opentelemetry/auto-instrumentations-node': '0.81.0' },
  },
  3: {
    api: { '@opentelemetry/api': '1.10.0' },
    auto: { '@opentelemetry/api': '1.10.0', '@opentelemetry/auto-instrumentations-node': '0.82.0' },
  },
};

let known: Promise<Subject> | undefined;

/** `SVC_E2E_NODE` (default: the Node that runs the tests) and `SVC_E2E_OTEL` (2 or 3; default 3). */
export function subject(): Promise<Subject> {
  known ??= readSubject(process.env.SVC_E2E_NODE, process.env.SVC_E2E_OTEL ?? '3');
  return known;
}

/** The line under test in the matrix, which runs with each; else both. */
export async function linesUnderTest(): Promise<readonly OtelLine[]> {
  const { otel, isMatrix } = await subject();
  return isMatrix ? [otel] : [3, 2];
}

async function readSubject(asked: string | undefined, otel: string): Promise<Subject> {
  if (otel !== '2' && otel !== '3') throw new Error(`SVC_E2E_OTEL must be 2 or 3, not ${otel}`);
  const node = asked === undefined ? process.execPath : await ensureRuntime(asked);
  const version = asked === undefined ? process.versions.node : await versionOf(node);
  return {
    node,
    version,
    otel: Number(otel) as OtelLine,
    hasSoundSyncHooks: isSound(version),
    stripsTypes: isAtLeast(version, '22.18.0'),
    isMatrix: process.env.SVC_E2E_MATRIX === '1',
  };
}

async function versionOf(node: string): Promise<string> {
  const { execFileSync } = await import('node:child_process');
  return execFileSync(node, ['--version'], { encoding: 'utf8', timeout: 20_000 }).trim().slice(1);
}

function isSound(version: string): boolean {
  return (
    isAtLeast(version, '26.0.0') ||
    (version.startsWith('24.') && isAtLeast(version, '24.11.1')) ||
    (version.startsWith('22.') && isAtLeast(version, '22.22.3'))
  );
}

export function isAtLeast(version: string, least: string): boolean {
  return version.localeCompare(least, 'en', { numeric: true }) >= 0;
}
