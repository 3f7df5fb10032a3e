// catalog/: the events of an application, written down for their consumers.

import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { nearestManifest, readBoundedSync } from '../ground/files.ts';
import { compilePolicy } from '../protect/marks/policy.ts';
import {
  type Catalog,
  CatalogError,
  type CatalogEvent,
  catalogFileName,
  catalogText,
} from './catalog-file.ts';
import type { Declared, DeclaredTypes } from './declared.ts';
import { asyncapiText, avroText, fileNameOf, jsonSchemaText, namesFor, typescriptText } from './forms.ts';
import { completed, propertiesOf, protectedShape, type Shape, shapeOfAvro } from './shape.ts';

/** Of a type that was seen in a topic, and is declared nowhere that reading finds. */
export const seenIn = (topic: string): string => `topic ${topic}`;
const isSeenOnly = ({ from }: CatalogEvent): boolean => from.every((each) => each.startsWith(seenIn('')));

/**
 * What configuration and code publish now, with what is known of payloads from before.
 *
 * @throws CatalogError
 */
export function madeCatalog(
  { types }: Pick<DeclaredTypes, 'types'>,
  config: Config,
  before: Catalog,
): Catalog {
  const events = new Map<string, CatalogEvent>();
  for (const [eventType, event] of before)
    if (!types.has(eventType) && isSeenOnly(event)) events.set(eventType, event);
  for (const [eventType, declared] of types)
    events.set(eventType, eventOf(eventType, declared, before.get(eventType), config));
  return new Map([...events].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function eventOf(
  eventType: string,
  { from, topics, keys, payload, rules }: Declared,
  before: CatalogEvent | undefined,
  config: Config,
): CatalogEvent {
  const { serde, pii } = config;
  const isAvro = serde.type === 'AVRO';
  const avro = avroOf(eventType, config);
  const policy = compilePolicy(pii.enabled ? [...rules, ...pii.fields] : []);
  return {
    ...{ from, keys, topics: topics.length === 0 ? (before?.topics ?? []) : topics },
    contentType: isAvro ? 'application/avro' : 'application/json',
    payload:
      isAvro && avro !== undefined
        ? shapeOfAvro(avro)
        : protectedShape(completed(payload, before && unmasked(before.payload)), policy),
    ...(avro !== undefined && { avro }),
  };
}

function avroOf(eventType: string, { serde, baseDir }: Config): unknown {
  const [file] = serde.schemas?.[eventType] ?? [];
  if (file === undefined) return undefined;
  try {
    return JSON.parse(readBoundedSync(resolve(baseDir, file)).toString());
  } catch {
    throw new CatalogError(
      `svc.serde.schemas: ${file} of ${JSON.stringify(eventType)} holds no schema of Avro`,
    );
  }
}

/** Masks come from rules alone, which may have gone. */
function unmasked({ properties, items, additionalProperties, protection, ...rest }: Shape): Shape {
  return {
    ...rest,
    ...(properties !== undefined && {
      properties: propertiesOf(Object.entries(properties).map(([name, each]) => [name, unmasked(each)])),
    }),
    ...(items !== undefined && { items: unmasked(items) }),
    ...(additionalProperties !== undefined && { additionalProperties: unmasked(additionalProperties) }),
    ...(protection !== undefined && protection !== 'masked' && { protection }),
  };
}

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
