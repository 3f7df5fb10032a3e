import { createRequire, register } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { nearestManifest } from '../../ground/files/manifest.ts';
import { shared } from '../../ground/lifecycle.ts';
import type { PackageHookOptions } from './hooked-package.ts';
import { packageName } from './resolve-package.ts';

const load = createRequire(import.meta.url);

/** A loader can be installed once: a second start only adds names. */
const loader = shared('package-loader', () => ({ isInstalled: false, included: new Set<string>() }));

/**
 * Names and URLs of what the loader is to hand to hooks: every other module is loaded as if it were not there. Where Node has
 * no sound synchronous hooks, only what is named before the loader is installed.
 */
export function includeImports(keys: Iterable<string>): void {
  for (const key of keys) loader.included.add(key);
}

/** Returns why that is not possible here. */
export function installLoader(options: PackageHookOptions): string | undefined {
  if (loader.isInstalled) return undefined;
  const reason = installCopy(load, loader.included, options);
  loader.isInstalled = reason === undefined;
  return reason;
}

/** The copy of `import-in-the-middle` that `user` loads: hooks of one copy hear nothing from the loader of another. */
export function isOwnCopy(user: NodeJS.Require): boolean {
  return user.resolve('import-in-the-middle') === load.resolve('import-in-the-middle');
}

/** For instrumentations that have a copy of their own. Returns why that is not possible here. */
export function installOtherLoader(user: NodeJS.Require, included: ReadonlySet<string>): string | undefined {
  if (!supportsSyncHooks(load)) return 'they have another copy of import-in-the-middle than svc';
  return installCopy(user, included, { preloadedBy: 'import' });
}

function installCopy(
  from: NodeJS.Require,
  included: ReadonlySet<string>,
  options: PackageHookOptions,
): string | undefined {
  if (supportsSyncHooks(from)) {
    const hooks = from(
      'import-in-the-middle/register-hooks.mjs',
    ) as typeof import('import-in-the-middle/register-hooks.mjs');
    const shouldInclude = (url: string, specifier: string) =>
      keysOf(url, specifier).some((key) => included.has(key));
    // The option is in the code and not in the types of 3.6.
    hooks.register({ shouldInclude } as Parameters<typeof hooks.register>[0]);
    return undefined;
  }
  if (options.preloadedBy === 'require')
    return `import does not reach it with --require on Node ${process.versions.node}; use --import svc/register`;
  register(pathToFileURL(from.resolve('import-in-the-middle/hook.mjs')), {
    data: { include: [...included] },
  });
  return undefined;
}

function supportsSyncHooks(from: NodeJS.Require): boolean {
  const module = from(
    'import-in-the-middle/supports-sync-hooks.mjs',
  ) as typeof import('import-in-the-middle/register-hooks.mjs');
  return module.supportsSyncHooks();
}

/** What a module that is imported can be wanted by. */
export function keysOf(url: string, specifier: string): string[] {
  const file = withoutQuery(url);
  return [specifier, file, ownSpecifier(file, specifier) ?? specifier];
}

function withoutQuery(url: string): string {
  const end = url.search(/[?#]/);
  return end < 0 ? url : url.slice(0, end);
}

/**
 * What a module is called by the package.json of its package, where it is imported by the name of a link: Next.js loads
 * `drizzle-orm/pg-core` as `drizzle-orm-4d62399e06797e94/pg-core`. `undefined` where its path says the name that was asked for.
 */
function ownSpecifier(url: string, specifier: string): string | undefined {
  const isBare = /^(?:@[^/]|[^./#@])[^:]*$/.test(specifier);
  if (!isBare || !url.startsWith('file:')) return undefined;
  const name = packageName(specifier);
  if (url.includes(`/node_modules/${name}/`)) return undefined;
  const folder = path.dirname(fileURLToPath(url));
  const own = nearestManifest(folder, (manifest) => manifest.name !== undefined)?.name;
  return own === undefined ? undefined : own + specifier.slice(name.length);
}
