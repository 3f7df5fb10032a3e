import Module, { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { namesOf } from '../../capture/packages/resolve-package.ts';
import { packageName } from '../../capture/source/exports/resolve-specifier.ts';
import { hasSoundSyncHooks, preloadedBy } from '../../capture/source/node-hooks.ts';
import { nearestManifest } from '../../ground/files/manifest.ts';
import type { Logger } from '../../observe/logger.ts';

interface Definitions {
  getModuleDefinitions?(): readonly { readonly name: string }[];
}

type SyncHooks = { register(options: { shouldInclude(url: string, specifier: string): boolean }): void };

/**
 * Instrumentations see by themselves what is required. What is imported they see through the loader of `import-in-the-middle`, in
 * the copy that they listen to. Returns what installs it, to be called when svc has installed its own hooks.
 */
export function hookSdkImports(
  instrumentations: readonly unknown[],
  sdkFile: string,
  logger: Logger,
): () => void {
  const names = new Set(
    (instrumentations as readonly Definitions[])
      .flatMap((each) => each.getModuleDefinitions?.() ?? [])
      .flatMap(({ name }) => namesOf(name)),
  );
  const user = createRequire(createRequire(sdkFile).resolve('@opentelemetry/instrumentation'));
  return () => {
    const reason = tryTo(() => install(user, names));
    if (reason !== undefined) logger.warn(`instrumentations do not see what ES modules import: ${reason}`);
  };
}

/** Returns why that is not possible here. */
function install(user: NodeJS.Require, names: ReadonlySet<string>): string | undefined {
  if (hasSoundSyncHooks()) {
    const { register } = user('import-in-the-middle/register-hooks.mjs') as SyncHooks;
    register({
      shouldInclude(url, specifier) {
        const file = url.replace(/[?#].*$/s, '');
        return [specifier, file, ownSpecifier(file, specifier)].some(
          (each) => each !== undefined && names.has(each),
        );
      },
    });
    return undefined;
  }
  if (preloadedBy() === 'require')
    return `import does not reach it with --require on Node ${process.versions.node}; use --import svc/register`;
  Module.register(pathToFileURL(user.resolve('import-in-the-middle/hook.mjs')), {
    data: { include: [...names] },
  });
  return undefined;
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

/** A copy that is too old has other files. */
function tryTo(install: () => string | undefined): string | undefined {
  try {
    return install();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
