import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { type Manifest, nearestManifest } from '../../ground/files/manifest.ts';

/** What the application has installed. */
export interface Application {
  /** Its package.json: the nearest one with a name. */
  readonly manifest: Manifest | undefined;
  /** The file that `require` of a package loads; `undefined`: it is not installed. */
  fileOf(name: string): string | undefined;
  versionOf(name: string): string | undefined;
  /** Throws what loading it throws. */
  load(name: string): unknown;
}

/** From the entry file, the configuration file and the working directory; at last from svc itself, beside which pnpm puts peers. */
export function applicationOf(
  baseDir: string,
  entry = process.argv[1],
  directory = process.cwd(),
): Application {
  const folders = [...(entry === undefined ? [] : [dirname(resolve(directory, entry))]), baseDir, directory];
  const places = [...folders.map((folder) => join(folder, 'noop.js')), import.meta.url].map((place) =>
    createRequire(place),
  );
  const fileOf = (name: string): string | undefined => {
    for (const place of places) {
      try {
        return place.resolve(name);
      } catch {
        // Not from there.
      }
    }
    return undefined;
  };
  const isNamed = ({ name }: Manifest): boolean => Boolean(name);
  return {
    manifest: folders
      .filter((folder) => !/[\\/]node_modules([\\/]|$)/.test(folder))
      .map((folder) => nearestManifest(folder, isNamed))
      .find((manifest) => manifest !== undefined),
    fileOf,
    versionOf(name) {
      const file = fileOf(name);
      return file && nearestManifest(dirname(file), (manifest) => manifest.name === name)?.version;
    },
    load(name) {
      return createRequire(import.meta.url)(fileOf(name) ?? name);
    },
  };
}
