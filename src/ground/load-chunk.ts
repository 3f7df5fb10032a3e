import { createRequire } from 'node:module';
import { basename } from 'node:path';
import { runOwnWork } from './lifecycle.ts';

/**
 * Loads, synchronously and when it is needed, what is built into a file of its own: an entry of the CommonJS build in
 * tsdown.config.ts. `from`: the caller's `import.meta.url`. `source`: its path from there; in the package all stand side by side.
 */
export function loadChunk(from: string, source: string): unknown {
  const file = from.endsWith('.ts') ? source : `./${basename(source, '.ts')}.cjs`;
  // An application may capture functions of node:fs, which are called here.
  return runOwnWork(() => createRequire(from)(file));
}
