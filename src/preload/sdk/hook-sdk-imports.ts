import { createRequire } from 'node:module';
import {
  includeImports,
  installLoader,
  installOtherLoader,
  isOwnCopy,
} from '../../capture/packages/import-loader.ts';
import { namesOf } from '../../capture/packages/resolve-package.ts';
import { preloadedBy } from '../../capture/source/node-hooks.ts';
import type { Logger } from '../../observe/logger.ts';

interface Definitions {
  getModuleDefinitions?(): readonly { readonly name: string }[];
}

/**
 * Instrumentations see by themselves what is required. What is imported goes to them through the loader that svc has for
 * packages of its targets: that of `import-in-the-middle`, in the copy that they listen to. Returns what installs it, to be
 * called when svc has named its own packages, because Node takes it once.
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
  const isOwn = isOwnCopy(user);
  if (isOwn) includeImports(names);
  return () => {
    const reason = tryTo(() =>
      isOwn ? installLoader({ preloadedBy: preloadedBy() }) : installOtherLoader(user, names),
    );
    if (reason !== undefined) logger.warn(`instrumentations do not see what ES modules import: ${reason}`);
  };
}

/** A copy that is too old has other files. */
function tryTo(install: () => string | undefined): string | undefined {
  try {
    return install();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
