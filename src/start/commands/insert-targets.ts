import { rewrite, type SourceEvents, type SourceTarget } from '../../capture/source/rewrite-text.ts';
import { locate, targetFileLookup } from '../../capture/source/target-files.ts';
import { loadConfig } from '../../config/read/load.ts';

/** Inserts the calls of a module's targets. `undefined`: nothing to insert. `path` may end in a query. */
type InsertTargets = (path: string, text: string, warn: (message: string) => void) => string | undefined;

/**
 * For tools that read the application's files themselves, so that Node does not load them. The result needs `svc/register` with the same
 * configuration. Texts are ES modules without types. Never throws.
 */
export function insertTargets(directory: string): InsertTargets {
  // Works also if svc is switched off for the tool.
  const { targets, baseDir } = loadConfig({ cwd: directory, code: { svc: { enabled: true } } }).config;
  const files = new Map<string, SourceTarget[]>();
  for (const { id, module, function: functionPath } of targets) {
    for (const path of pathsOf(module, baseDir))
      files.set(path, [...(files.get(path) ?? []), { id, functionPath }]);
  }
  const { byPath } = targetFileLookup(files);
  return (path, text, warn) => {
    const file = byPath(path.replace(/[?#].*$/s, ''));
    if (file === undefined) return undefined;
    const events: SourceEvents = {
      found: () => true,
      problem: (id, reason) => warn(`target ${id} is not captured: ${reason}`),
    };
    const inserted = rewrite(file.path, text, { goal: 'module', typed: false }, file.targets, events);
    return inserted === text ? undefined : inserted;
  };
}

/** Empty for a package, and for an invalid target, which svc reports when it runs. */
function pathsOf(module: string, baseDir: string): readonly string[] {
  try {
    const located = locate(module, baseDir);
    return 'paths' in located ? located.paths : [];
  } catch {
    return [];
  }
}
