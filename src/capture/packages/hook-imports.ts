import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import type { HookedPackage, PackageHookOptions } from './hooked-package.ts';
import { includeImports, installLoader, keysOf } from './import-loader.ts';
import { type ExportTarget, patchNamespace } from './patch-exports.ts';

const load = createRequire(import.meta.url);

type Namespace = Record<string, unknown>;

/** Patches packages as `import` loads them, CommonJS ones included. `onUnreachable` tells why that is not possible here. */
export function hookImports(
  packages: readonly HookedPackage[],
  options: PackageHookOptions,
  onUnreachable: (reason: string) => void,
): () => void {
  const { addHook, removeHook } = load('import-in-the-middle') as typeof import('import-in-the-middle');
  const wanted = new Map<string, HookedPackage[]>();
  for (const each of packages) {
    const urls = each.file === undefined ? [] : [pathToFileURL(each.file).href];
    for (const key of [...each.names, ...urls]) wanted.set(key, [...(wanted.get(key) ?? []), each]);
  }
  const hook = (url: string, namespace: Namespace, specifier?: string, format?: string): void => {
    const matching = new Set(keysOf(url, specifier ?? '').flatMap((key) => wanted.get(key) ?? []));
    for (const { patchAll } of matching) {
      const patch = (_: unknown, target: ExportTarget) => patchNamespace(namespace, format, target);
      patchAll(namespace, patch);
    }
  };
  addHook(hook);
  includeImports(wanted.keys());
  const reason = installLoader(options);
  if (reason !== undefined) onUnreachable(reason);
  return () => removeHook(hook);
}
