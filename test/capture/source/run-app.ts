import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TargetReport } from '../../../src/capture/report.ts';
import { temporaryFolder } from '../../support/folders.ts';

export interface Outcome {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** By target id; calls of the main thread and of workers added up. */
  readonly calls: Record<string, number>;
  readonly names: Record<string, readonly string[] | undefined>;
  readonly reports: Record<string, TargetReport>;
}

/** Writes files into a new folder; a value that starts with `->` is a link. */
export function writeApp(files: Record<string, string>): string {
  const folder = temporaryFolder('capture');
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    if (text.startsWith('->')) symlinkSync(text.slice(2), path);
    else writeFileSync(path, text);
  }
  return folder;
}

/** Runs an application under the probe and says which targets were called. */
export function runApp(
  folder: string,
  targets: readonly string[],
  {
    main = 'main.mjs',
    by = '--import',
    before = [] as readonly string[],
    args = [] as readonly string[],
    env = {} as Record<string, string>,
  } = {},
): Outcome {
  const probe = fileURLToPath(new URL('./preload-probe.ts', import.meta.url));
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--no-warnings', ...before, by, probe, ...args, join(folder, main)],
    {
      encoding: 'utf8',
      timeout: 20_000,
      env: {
        ...process.env,
        CAPTURE_MAIN: join(folder, 'svc.config.yaml'),
        CAPTURE_TARGETS: JSON.stringify(targets),
        ...env,
      },
    },
  );
  const outcome: Outcome = { status, stdout, stderr, calls: {}, names: {}, reports: {} };
  for (const [, json = ''] of stdout.matchAll(/^CAPTURE (.*)$/gm)) {
    const { seen, reports } = JSON.parse(json) as {
      seen: Record<string, { calls: number; names: readonly string[] }>;
      reports: TargetReport[];
    };
    for (const [id, { calls, names }] of Object.entries(seen)) {
      outcome.calls[id] = (outcome.calls[id] ?? 0) + calls;
      outcome.names[id] = names;
    }
    for (const report of reports) {
      if (outcome.reports[report.id]?.state !== 'patched') outcome.reports[report.id] = report;
    }
  }
  return outcome;
}
