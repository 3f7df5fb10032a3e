import { createRequire, register } from 'node:module';
import { pathToFileURL } from 'node:url';
import { shared } from '../../ground/lifecycle.ts';
import type { HookedPackage, PackageHookOptions } from './hooked-package.ts';
import { type ExportTarget, patchNamespace } from './patch-exports.ts';

const load = createRequire(import.meta.url);

/** A loader can be installed once: a second start only adds names. */
const loader = shared('package-loader', () => ({ isInstalled: false, included: new Set<string>() }));

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
    const matching = new Set([
      ...(wanted.get(specifier ?? '') ?? []),
      ...(wanted.get(withoutQuery(url)) ?? []),
    ]);
    for (const { patchAll } of matching) {
      const patch = (_: unknown, target: ExportTarget) => patchNamespace(namespace, format, target);
      patchAll(namespace, patch);
    }
  };
  addHook(hook);
  for (const key of wanted.keys()) loader.included.add(key);
  if (!loader.isInstalled) loader.isInstalled = installLoader(options);
  if (!loader.isInstalled)
    onUnreachable(
      `import does not reach it with --require on Node ${process.versions.node}; use --import svc/register`,
    );
  return () => removeHook(hook);
}

/** Only what targets name goes through the loader: every other module is loaded as if it were not there. */
function installLoader(options: PackageHookOptions): boolean {
  const { supportsSyncHooks } = load(
    'import-in-the-middle/supports-sync-hooks.mjs',
  ) as typeof import('import-in-the-middle/register-hooks.mjs');
  const { included } = loader;
  if (supportsSyncHooks()) {
    const hooks = load(
      'import-in-the-middle/register-hooks.mjs',
    ) as typeof import('import-in-the-middle/register-hooks.mjs');
    const shouldInclude = (url: string, specifier: string) =>
      included.has(specifier) || included.has(withoutQuery(url));
    // The option is in the code and not in the types of 3.6.
    hooks.register({ shouldInclude } as Parameters<typeof hooks.register>[0]);
    return true;
  }
  if (options.preloadedBy === 'require') return false;
  register('import-in-the-middle/hook.mjs', import.meta.url, { data: { include: [...included] } });
  return true;
}

function withoutQuery(url: string): string {
  const end = url.search(/[?#]/);
  return end < 0 ? url : url.slice(0, end);
}
