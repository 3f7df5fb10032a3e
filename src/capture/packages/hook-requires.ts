import { createRequire } from 'node:module';
import type { HookedPackage } from './hooked-package.ts';
import { patchExports } from './patch-exports.ts';

// Loaded when there are targets only, so that nobody else pays for it at start.
const load = createRequire(import.meta.url);

/** Patches packages as `require` loads them: CommonJS, and ES modules that are required. */
export function hookRequires(packages: readonly HookedPackage[]): () => void {
  const { Hook } = load('require-in-the-middle') as typeof import('require-in-the-middle');
  // One hook each: its callback is told a name that two files of one folder can share.
  const hooks = packages.map(({ names, file, patchAll }) => {
    const modules = file === undefined ? [...names] : [...names, file];
    return new Hook(modules, (exports) => patchAll(exports, patchExports) as typeof exports);
  });
  return () => {
    // The last one first: each gives `require` back as it found it.
    for (const hook of hooks.reverse()) hook.unhook();
  };
}
