import { createRequire } from 'node:module';

const load = createRequire(import.meta.url);

/**
 * A package of the application, which is not loaded for it: svc may come first, and an instrumentation that is started after svc
 * finds a driver only where the application itself loads it. The same one, where the application was first.
 */
export function loadOwnCopy(name: string): unknown {
  const before = new Set(Object.keys(load.cache));
  try {
    return load(name);
  } finally {
    for (const file of Object.keys(load.cache)) if (!before.has(file)) delete load.cache[file];
  }
}
