// preload/: svc in a process, whoever starts it: from the configuration to the last word of the process.

import { loadConfig } from '../config/read/load.ts';
import { shared } from '../ground/lifecycle.ts';
import type { LogFormat } from '../observe/logger.ts';
import { isLauncher, run, running } from './running.ts';

export { isLauncher, type Running, type RunOptions, run, running } from './running.ts';

const loading = shared('preload', () => ({ done: false }));

/** What `svc/register` runs, once per process (and per worker thread). */
export function preload(): void {
  // A SvcInstrumentation that was there first runs what this would.
  if (loading.done || running() !== undefined || isLauncher(process.argv)) return;
  loading.done = true;
  run(loadConfig());
}

/** For what is said where svc could not start. `isRequired`: the process must not run without svc. */
export function lastResort(code?: object): { readonly isRequired: boolean; readonly format: LogFormat } {
  const { config } = loadConfig(code === undefined ? {} : { code });
  return { isRequired: config.enabled && config.required, format: config.log.format };
}
