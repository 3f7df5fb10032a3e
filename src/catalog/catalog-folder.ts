import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { nearestManifest } from '../ground/files/manifest.ts';
import { type Catalog, CatalogError, catalogFileName, catalogText } from './catalog-file.ts';
import { asyncapiText } from './forms/asyncapi.ts';
import { avroText } from './forms/avro.ts';
import { jsonSchemaText } from './forms/json-schema.ts';
import { fileNameOf, namesFor } from './forms/type-names.ts';
import { typescriptText } from './forms/typescript.ts';

/** All files of a catalog, by their path in its folder. */
export function filesOf(catalog: Catalog, baseDir: string): ReadonlyMap<string, string> {
  const { name, version } = nearestManifest(baseDir) ?? {};
  const names = namesFor(catalog.keys(), fileNameOf);
  return new Map([
    ...[...catalog].flatMap(([eventType, event]): [string, string][] => {
      const { json, avro } = pathsOf(names.get(eventType) as string);
      return [
        [json, jsonSchemaText(eventType, event.payload)],
        [avro, avroText(eventType, event)],
      ];
    }),
    ['events.ts', typescriptText(catalog)],
    ['asyncapi.json', asyncapiText(catalog, { title: name ?? 'events', version: version ?? '0.0.0' })],
    // Last: what is written after it is made of it.
    [catalogFileName, catalogText(catalog)],
  ]);
}

const pathsOf = (name: string) => ({ json: `json-schema/${name}.json`, avro: `avro/${name}.avsc` });

/** The paths of those that are there in another form, or not at all. */
export function outdated(folder: string, files: ReadonlyMap<string, string>): string[] {
  return [...files].flatMap(([path, text]) => (textAt(join(folder, path)) === text ? [] : [path]));
}

/**
 * Writes what has changed, and takes away what the catalog of before had made of types that are gone. Each file is there in whole.
 *
 * @throws CatalogError
 */
export function writeFolder(folder: string, files: ReadonlyMap<string, string>, before: Catalog): string[] {
  const changed = outdated(folder, files);
  try {
    for (const path of changed) {
      const place = join(folder, path);
      const early = `${place}.${process.pid}.tmp`;
      mkdirSync(dirname(place), { recursive: true });
      try {
        writeFileSync(early, files.get(path) as string);
        renameSync(early, place);
      } finally {
        rmSync(early, { force: true });
      }
    }
    for (const name of namesFor(before.keys(), fileNameOf).values())
      for (const path of Object.values(pathsOf(name)))
        if (!files.has(path)) rmSync(join(folder, path), { force: true });
  } catch (error) {
    throw new CatalogError(`${folder} cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
  return changed;
}

function textAt(path: string): string | undefined {
  try {
    // As git may have checked it out.
    return readFileSync(path, 'utf8').replaceAll('\r\n', '\n');
  } catch {
    return undefined;
  }
}
