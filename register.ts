import * as nodeModule from 'node:module';
import { runInThisContext } from 'node:vm';
import { notStartedExitCode, unsupportedNode } from './src/ground/version.ts';
import type { LogFormat } from './src/observe/logger.ts';
import type * as Preload from './src/preload/preload.ts';

// The way in: `node --import svc/register app.js`, or `--require`. Whatever fails here is said, and the application runs on,
// unless `svc.required` asks for the opposite.
// Jest's `setupFiles` run in a realm and a module system that end with the test file: svc stays in those of the process.
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
  // Switched off like this, not even what reads the configuration is loaded.
  try {
    // CommonJS on purpose: loaded synchronously, before the application, whichever way the preload came in.
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

/** The lines of `src/observe/logger.ts`, which is not loaded where svc is switched off. */
function say(format: LogFormat, message: string): void {
  const line = { timestamp: new Date().toISOString(), severity: 'ERROR', message, logger: 'svc' };
  process.stderr.write(`${format === 'json' ? JSON.stringify(line) : `svc: ${message}`}\n`);
}

/** The file counts where this Node can load what reads it. */
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
