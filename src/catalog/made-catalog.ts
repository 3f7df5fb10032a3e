// catalog/: the events of an application, written down for their consumers.

import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { readBoundedSync } from '../ground/files/folders.ts';
import { compilePolicy } from '../protect/marks/policy.ts';
import { type Catalog, CatalogError, type CatalogEvent } from './catalog-file.ts';
import type { Declared, DeclaredTypes } from './declared/declared-events.ts';
import { shapeOfAvro } from './shape/avro-shape.ts';
import { completed } from './shape/completed.ts';
import { protectedShape } from './shape/protected.ts';
import { propertiesOf, type Shape } from './shape/shape.ts';

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
