import { createRequire } from 'node:module';
import { notStartedExitCode } from './src/not-started.ts';
import type * as Preload from './src/preload.ts';
import { unsupportedNode } from './src/supported-node.ts';

// The way in: `node --import svc/register app.js`, or `--require`. Whatever fails here is said, and the application runs on,
// unless `svc.required` asks for the opposite.
const load = () => createRequire(import.meta.url)('./preload.cjs') as typeof Preload;
const tooOld = unsupportedNode(process.versions.node);

if (tooOld !== undefined) {
  if (isRequired()) {
    process.stderr.write(`svc: ${tooOld}; the process does not start, because svc.required is true\n`);
    process.exit(notStartedExitCode);
  }
  process.stderr.write(`svc: ${tooOld}; the application runs without it\n`);
} else if (process.env.SVC_ENABLED !== 'false') {
  // Switched off like this, not even what reads the configuration is loaded.
  try {
    // CommonJS on purpose: loaded synchronously, before the application, whichever way the preload came in.
    load().preload();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (isRequired()) {
      process.stderr.write(
        `svc: could not start, nor does the process, because svc.required is true: ${reason}\n`,
      );
      process.exit(notStartedExitCode);
    }
    process.stderr.write(`svc: could not start, the application runs without it: ${reason}\n`);
  }
}

/** The file counts where this Node can load what reads it. */
function isRequired(): boolean {
  if (process.env.SVC_ENABLED === 'false') return false;
  try {
    return load().isRequired();
  } catch {
    return /^(true|1)$/i.test(process.env.SVC_REQUIRED?.trim() ?? '');
  }
}
