import Module, { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { nodeFlags } from './resolve-specifier.ts';

const remedy = 'start with node --import svc/register instead of importing svc in the code';

/** Why the CommonJS module in this file cannot be captured any more; `undefined` when it can. */
export function whyTooLate(file: string): string | undefined {
  const { _cache } = Module as unknown as { _cache: Readonly<Record<string, unknown>> };
  return Object.hasOwn(_cache, file) ? `was loaded before svc started: ${remedy}` : undefined;
}

/** Finds out whether svc was started by the application's own code: then no hook of svc ever sees the entry. */
export interface EntryWatch {
  /** A module is loaded: a path or a URL. */
  see(module: string): void;
  /** Why ES modules that were never seen may have been there all the same; `undefined` when there is no reason. */
  reason(): string | undefined;
}

export function watchEntry(seesModules: boolean): EntryWatch {
  const file = entryFile();
  const url = file && pathToFileURL(file).href;
  let isSeen = false;
  return {
    see(module) {
      if (!isSeen && (module === file || (url !== undefined && module.startsWith(url)))) isSeen = true;
    },
    reason() {
      // A CommonJS entry loads one module after the other, and the cache tells which ones were too early.
      const isKnown = !isMainThread || file === undefined || process.mainModule !== undefined;
      if (isKnown || isSeen || (!seesModules && hasPreloads())) return undefined;
      return `was loaded before svc, or never. svc was started by an import in the code, and its sibling imports load first: ${remedy}`;
    },
  };
}

/** What `node app`, `node .` and `node app.js` run. */
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
