import { readFileSync } from 'node:fs';
import { printableJson } from '../observe/logger.ts';
import { areTexts, isObject, readShape, type Shape, written } from './shape.ts';

/** What the catalog says of one event type. */
export interface CatalogEvent {
  /** Where it is published: `src/orders.ts#createOrder`; of a type that was only seen, `topic orders.events.v1`. */
  readonly from: readonly string[];
  readonly topics: readonly string[];
  readonly contentType: string;
  /** What record keys are made from; none: the id of the event. */
  readonly keys: readonly string[];
  readonly payload: Shape;
  /** The schema of its payload in Avro, where the configuration names one. */
  readonly avro?: unknown;
}

export type Catalog = ReadonlyMap<string, CatalogEvent>;

/** The catalog cannot be made or read: exit code 1. */
export class CatalogError extends Error {}

export const catalogFileName = 'svc.catalog.json';
const version = 1;

export function catalogText(catalog: Catalog): string {
  const events = [...catalog].map(([eventType, { from, topics, contentType, keys, payload, avro }]) => [
    eventType,
    {
      from,
      topics,
      contentType,
      keys,
      payload: written(payload, (protection) => ({ protection })),
      ...(avro !== undefined && { avro }),
    },
  ]);
  return `${printableJson({ svcCatalog: version, events: Object.fromEntries(events) }, 2)}\n`;
}

/**
 * `undefined`: the file is not there.
 *
 * @throws CatalogError
 */
export function readCatalog(file: string): Catalog | undefined {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new CatalogError(`${file} cannot be read (${code})`);
  }
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    const isConflict = /^(?:<{7}|>{7})/m.test(text);
    throw new CatalogError(`${file} is no JSON${isConflict ? ': it holds a conflict of git' : ''}`);
  }
  if (!isObject(document) || !Number.isInteger(document.svcCatalog))
    throw new CatalogError(`${file} is no catalog of svc`);
  if (document.svcCatalog !== version)
    throw new CatalogError(
      `${file} is a catalog of version ${document.svcCatalog}, and this svc knows version ${version}: install the svc that has made it`,
    );
  if (!isObject(document.events)) throw new CatalogError(`${file} has no events`);
  return new Map(
    Object.entries(document.events).map(([eventType, entry]) => {
      const event = eventOf(entry);
      if (event === undefined)
        throw new CatalogError(
          `${file}: what it says of ${JSON.stringify(eventType)} is not what svc catalog writes`,
        );
      return [eventType, event];
    }),
  );
}

function eventOf(entry: unknown): CatalogEvent | undefined {
  if (!isObject(entry)) return undefined;
  const { from, topics, contentType, keys, avro } = entry;
  const payload = readShape(entry.payload);
  if (!areTexts(from) || !areTexts(topics) || !areTexts(keys) || payload === undefined) return undefined;
  if (typeof contentType !== 'string') return undefined;
  return { from, topics, contentType, keys, payload, ...(avro !== undefined && { avro }) };
}
