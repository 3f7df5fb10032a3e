import { createRequire } from 'node:module';

// The way in: `node --import svc/register app.js`, or `--require`. Whatever fails here is said, and the application runs on.
const needed = [22, 15, 0] as const;

function isSupported(version: string): boolean {
  const found = version.split('.').map(Number);
  for (let part = 0; part < needed.length; part++) {
    const difference = (found[part] ?? 0) - (needed[part] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return true;
}

if (!isSupported(process.versions.node)) {
  process.stderr.write(
    `svc: needs Node ${needed.join('.')} or later, found ${process.versions.node}; the application runs without it\n`,
  );
} else if (process.env.SVC_ENABLED !== 'false') {
  // Switched off like this, not even what reads the configuration is loaded.
  try {
    // CommonJS on purpose: loaded synchronously, before the application, whichever way the preload came in.
    createRequire(import.meta.url)('./preload.cjs').preload();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(`svc: could not start, the application runs without it: ${reason}\n`);
  }
}
