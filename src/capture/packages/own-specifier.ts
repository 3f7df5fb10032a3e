import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { nearestManifest } from '../../ground/files/manifest.ts';
import { packageName } from './resolve-package.ts';

/**
 * What a module is called by the package.json of its package, where it is imported by the name of a link: Next.js loads
 * `drizzle-orm/pg-core` as `drizzle-orm-4d62399e06797e94/pg-core`. `undefined` where its path says the name that was asked for.
 */
export function ownSpecifier(url: string, specifier: string): string | undefined {
  const isBare = /^(?:@[^/]|[^./#@])[^:]*$/.test(specifier);
  if (!isBare || !url.startsWith('file:')) return undefined;
  const name = packageName(specifier);
  if (url.includes(`/node_modules/${name}/`)) return undefined;
  const folder = path.dirname(fileURLToPath(url));
  const own = nearestManifest(folder, (manifest) => manifest.name !== undefined)?.name;
  return own === undefined ? undefined : own + specifier.slice(name.length);
}
