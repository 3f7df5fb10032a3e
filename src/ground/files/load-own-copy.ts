import { createRequire } from 'node:module';
import { dirname, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const load = createRequire(import.meta.url);

const copies = new Map<string, unknown>();

/**
 * A package of the application, which is not loaded for it: svc may come first, and an instrumentation that is started after svc
 * finds a driver only where the application itself loads it. The same one, where the application was first. Loaded once.
 */
export function loadOwnCopy(name: string): unknown {
  if (!copies.has(name)) copies.set(name, loadAside(name));
  return copies.get(name);
}

function loadAside(name: string): unknown {
  const before = new Set(Object.keys(load.cache));
  // What an `import` of the application has begun and not run yet: Node 24.0 would take it for a circle, for good.
  const begun = Object.entries(load.cache).filter(
    ([file, module]) => module?.loaded === false && !isOurs(file),
  );
  for (const [file] of begun) delete load.cache[file];
  try {
    return load(name);
  } finally {
    for (const file of Object.keys(load.cache)) if (!before.has(file)) delete load.cache[file];
    for (const [file, module] of begun) load.cache[file] = module;
  }
}

const ourFolder = dirname(fileURLToPath(import.meta.url)) + sep;
const isOurs = (file: string): boolean => file.startsWith(ourFolder);
