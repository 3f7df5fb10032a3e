import Module, { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { nodeFlags } from './resolve-specifier.ts';

const remedy = 'start with node --import svc/register instead of importing svc in the code';

/** Why the CommonJS module in this file can no longer be captured; `undefined` if it can. */
export function whyTooLate(file: string): string | undefined {
  const { _cache } = Module as unknown as { _cache: Readonly<Record<string, unknown>> };
  return Object.hasOwn(_cache, file) ? `was loaded before svc started: ${remedy}` : undefined;
}

/** Detects that the application's own code started svc: its hooks then never see the entry. */
export function watchEntry(seesModules: boolean) {
  const file = entryFile();
  const url = file && pathToFileURL(file).href;
  let isSeen = false;
  return {
    see(module: string): void {
      if (!isSeen && (module === file || (url !== undefined && module.startsWith(url)))) isSeen = true;
    },
    /** Why ES modules may have been loaded unseen; `undefined` if there is no reason. */
    reason(): string | undefined {
      // A CommonJS entry loads modules in sequence, and the cache shows which were too early.
      const isKnown = !isMainThread || file === undefined || process.mainModule !== undefined;
      if (isKnown || isSeen || (!seesModules && hasPreloads())) return undefined;
      return `was loaded before svc, or never. svc was started by an import in the code, and its sibling imports load first: ${remedy}`;
    },
  };
}

/** The file that `node app`, `node .` or `node app.js` runs. */
export function entryFile(): string | undefined {
  try {
    const [, entry] = process.argv;
    return entry === undefined ? undefined : createRequire(join(process.cwd(), 'x')).resolve(entry);
  } catch {
    return undefined;
  }
}

function hasPreloads(): boolean {
  return nodeFlags().some((flag) =>
    /^(?:-r|--(?:import|require|(?:experimental-)?loader)(?:=.*)?)$/.test(flag),
  );
}
