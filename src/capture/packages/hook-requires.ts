import { createRequire } from 'node:module';
import path from 'node:path';
import type { HookedPackage } from './hooked-package.ts';
import { patchExports } from './patch-exports.ts';

// Loaded when there are targets only, so that nobody else pays for it at start.
const load = createRequire(import.meta.url);

/** Patches packages as `require` loads them: CommonJS, and ES modules that are required. */
export function hookRequires(packages: readonly HookedPackage[]): () => void {
  const { Hook } = load('require-in-the-middle') as typeof import('require-in-the-middle');
  // One hook for each target's package: its callback is told a name that two files of one folder can share.
  const hooks = packages
    .filter(({ ids }) => ids.length > 0)
    .map((each) => {
      return new Hook(modulesOf(each), (exports) => each.patchAll(exports, patchExports) as typeof exports);
    });
  // And one for all that are changed in place, where a patch too many does no harm: each hook resolves every `require` once more.
  const inPlace = packages.filter(({ ids }) => ids.length === 0);
  if (inPlace.length > 0)
    hooks.push(
      new Hook(inPlace.flatMap(modulesOf), (exports, name, folder) => {
        const meant = inPlace.filter((each) => isMeant(each, name, folder));
        return meant.reduce(
          (given, { patchAll }) => patchAll(given, patchExports) as typeof exports,
          exports,
        );
      }),
    );
  return () => {
    // The last one first: each gives `require` back as it found it.
    for (const hook of hooks.reverse()) hook.unhook();
  };
}

function modulesOf({ names, file }: HookedPackage): string[] {
  return file === undefined ? [...names] : [...names, file];
}

/** What is known by its path is told as a folder, and a name without the ending. */
function isMeant({ names, file }: HookedPackage, name: string, folder: string | undefined): boolean {
  if (names.includes(name)) return true;
  if (file === undefined || folder === undefined) return false;
  const { dir, name: base } = path.parse(file);
  return dir === folder && base === name;
}
