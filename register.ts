import * as nodeModule from 'node:module';
import { runInThisContext } from 'node:vm';
import { notStartedExitCode, unsupportedNode } from './src/ground/version.ts';
import type { LogFormat } from './src/observe/logger.ts';
import type * as Preload from './src/preload/preload.ts';

// The entry for `node --import svc/register app.js`, or `--require`. An error is logged, and the application runs on, unless `svc.required`
// is true. Jest's `setupFiles` run in a realm and a module system that end with the test file, so svc uses those of the process.
const { getBuiltinModule } = runInThisContext('process') as Partial<typeof process>;
const { createRequire } = getBuiltinModule?.('node:module') ?? nodeModule;
const load = () => createRequire(import.meta.url)('./preload.cjs') as typeof Preload;
const tooOld = unsupportedNode(process.versions.node);

if (tooOld !== undefined) {
  const { isRequired, format } = lastResort();
  if (isRequired) {
    say(format, `${tooOld}. The process does not start, because svc.required is true`);
    process.exit(notStartedExitCode);
  }
  say(format, `${tooOld}. The application runs without svc`);
} else if (process.env.SVC_ENABLED !== 'false') {
  // Switched off: not even the configuration loader is loaded.
  try {
    // CommonJS, because it must load synchronously before the application, under `--import` as well as `--require`.
    load().preload();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const { isRequired, format } = lastResort();
    if (isRequired) {
      say(format, `svc.required is true, so the process does not start: ${reason}`);
      process.exit(notStartedExitCode);
    }
    say(format, `could not start; the application runs without svc: ${reason}`);
  }
}

/** The lines of `src/observe/logger.ts`, which may not be loaded. */
function say(format: LogFormat, message: string): void {
  const line = { timestamp: new Date().toISOString(), severity: 'ERROR', message, logger: 'svc' };
  process.stderr.write(`${format === 'json' ? JSON.stringify(line) : `svc: ${message}`}\n`);
}

/** The settings for an error line. The configuration file counts if this Node can load its reader. */
function lastResort(): ReturnType<typeof Preload.lastResort> {
  const { SVC_ENABLED, SVC_REQUIRED, SVC_LOG_FORMAT } = process.env;
  const format = SVC_LOG_FORMAT?.trim() === 'json' ? 'json' : 'text';
  if (SVC_ENABLED === 'false') return { isRequired: false, format };
  try {
    return load().lastResort();
  } catch {
    return { isRequired: /^(true|1)$/i.test(SVC_REQUIRED?.trim() ?? ''), format };
  }
}
