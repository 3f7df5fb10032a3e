import { readFileSync } from 'node:fs';
import type { PathRule } from '../ground/pii-rule.ts';
import { printableJson } from '../observe/logger.ts';
import { compilePolicy, deadState, type PathState } from '../protect/marks/policy.ts';
import { loadAvsc } from '../serialize/avro/exact-types.ts';

// The shape of payloads: types and names, never a value.

const kinds = ['string', 'integer', 'number', 'boolean', 'object', 'array', 'null'] as const;
export type Kind = (typeof kinds)[number];

const protections = ['encrypted', 'hashed', 'masked'] as const;
export type Protection = (typeof protections)[number];

/** A subset of JSON Schema. Objects may have more properties than named. */
export interface Shape {
  /** Omitted: unknown. In the order of `kinds`. */
  readonly type?: readonly Kind[];
  readonly properties?: Properties;
  /** Omitted: no event was seen. */
  readonly required?: readonly string[];
  /** The values behind names that are data, such as ids. */
  readonly additionalProperties?: Shape;
  readonly items?: Shape;
  readonly protection?: Protection;
  /** The source spells out all properties. Not stored in the file. */
  readonly isClosed?: true;
}

type Properties = Readonly<Record<string, Shape>>;

export const unknownShape: Shape = {};

const isKnown = ({ type }: Shape): boolean => type !== undefined;

export function propertyNamed({ properties = {} }: Shape, name: string): Shape | undefined {
  return Object.hasOwn(properties, name) ? properties[name] : undefined;
}

export function namesOf({ properties = {} }: Shape): string[] {
  return Object.keys(properties);
}

/** Sorted, so that the same events produce the same file. */
export function propertiesOf(entries: Iterable<readonly [string, Shape]>): Properties {
  return Object.fromEntries([...entries].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** `number` includes `integer`. */
export function kindsOf(all: Iterable<Kind>): readonly Kind[] {
  const found = new Set(all);
  if (found.has('number')) found.delete('integer');
  return kinds.filter((kind) => found.has(kind));
}

/** The union of two shapes. */
export function merged(a: Shape, b: Shape): Shape {
  const protection = a.protection ?? b.protection;
  const marked = protection === undefined ? {} : { protection };
  if (a.type === undefined) return { ...b, ...marked };
  if (b.type === undefined) return { ...a, ...marked };
  const items = bothOrOne(a.items, b.items);
  return {
    type: kindsOf([...a.type, ...b.type]),
    ...(a.type.includes('object') && b.type.includes('object')
      ? mergedObjects(a, b)
      : objectOf(a.type.includes('object') ? a : b)),
    ...(items !== undefined && { items }),
    ...marked,
  };
}

function mergedObjects(a: Shape, b: Shape): Shape {
  const names = new Set([...namesOf(a), ...namesOf(b)]);
  const additional = bothOrOne(a.additionalProperties, b.additionalProperties);
  const required =
    a.required && b.required ? a.required.filter((name) => b.required?.includes(name)) : undefined;
  return {
    properties: propertiesOf(
      [...names].map((name) => [
        name,
        bothOrOne(propertyNamed(a, name), propertyNamed(b, name)) ?? unknownShape,
      ]),
    ),
    ...(required !== undefined && { required }),
    ...(additional !== undefined && { additionalProperties: additional }),
    ...(a.isClosed && b.isClosed && { isClosed: true }),
  };
}

function objectOf({ properties, required, additionalProperties, isClosed }: Shape): Shape {
  return {
    ...(properties !== undefined && { properties }),
    ...(required !== undefined && { required }),
    ...(additionalProperties !== undefined && { additionalProperties }),
    ...(isClosed && { isClosed }),
  };
}

function bothOrOne(a: Shape | undefined, b: Shape | undefined): Shape | undefined {
  return a !== undefined && b !== undefined ? merged(a, b) : (a ?? b);
}

/** A shape as JSON. `noteOf` adds the fields for a protected text. */
export function written(
  { type, properties, required, additionalProperties, items, protection }: Shape,
  noteOf: (protection: Protection) => object,
): Record<string, unknown> {
  const inside = (shape: Shape): object => written(shape, noteOf);
  return {
    ...(type !== undefined && { type: type.length === 1 ? type[0] : type }),
    ...(protection !== undefined && noteOf(protection)),
    ...(properties !== undefined && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, inside(each)])),
    }),
    ...(required !== undefined && { required }),
    ...(additionalProperties !== undefined && { additionalProperties: inside(additionalProperties) }),
    ...(items !== undefined && { items: inside(items) }),
  };
}

const maxDepth = 100;
const isIn = <T>(all: readonly T[], value: unknown): value is T =>
  (all as readonly unknown[]).includes(value);

/** Parses a shape of the file. `undefined`: invalid. */
function readShape(value: unknown, depth = 0): Shape | undefined {
  if (!isObject(value) || depth > maxDepth) return undefined;
  const { type, properties = {}, required = [], additionalProperties, items, protection } = value;
  const types = type === undefined || Array.isArray(type) ? type : [type];
  if (types?.every((each) => isIn(kinds, each)) === false || !isObject(properties)) return undefined;
  if (!areTexts(required) || (protection !== undefined && !isIn(protections, protection))) return undefined;
  const named = Object.entries(properties).map(([name, each]) => [name, readShape(each, depth + 1)] as const);
  const others = additionalProperties === undefined ? undefined : readShape(additionalProperties, depth + 1);
  const element = items === undefined ? undefined : readShape(items, depth + 1);
  const isWhole =
    named.every(([, each]) => each !== undefined) &&
    (others === undefined) === (additionalProperties === undefined) &&
    (element === undefined) === (items === undefined);
  if (!isWhole) return undefined;
  const shape: Shape = {
    ...(types !== undefined && { type: kindsOf(types as Kind[]) }),
    ...('properties' in value && { properties: propertiesOf(named as [string, Shape][]) }),
    ...(others !== undefined && { additionalProperties: others }),
    ...(element !== undefined && { items: element }),
    ...(protection !== undefined && { protection }),
  };
  if (!('required' in value)) return shape;
  return { ...shape, required: required.filter((name) => propertyNamed(shape, name) !== undefined) };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function areTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}

/** Whether a payload of this shape may contain a value at the rule's path. */
export function mayMeet(rule: PathRule, shape: Shape): boolean {
  const { root, valueRoot } = compilePolicy([rule]);
  const isObject = shape.type === undefined || shape.type.includes('object');
  return mayReach(shape, isObject ? root : valueRoot);
}

function mayReach({ type, properties = {}, items = {}, isClosed }: Shape, state: PathState): boolean {
  if (state === deadState) return false;
  if (state.rule !== undefined || type === undefined) return true;
  if (type.includes('object') && !isClosed) return true;
  if (type.includes('array') && mayReach(items, state.element())) return true;
  return Object.entries(properties).some(([name, each]) => mayReach(each, state.next(name)));
}

export interface CatalogEvent {
  /** The publishers: `src/orders.ts#createOrder`. For a type that was only seen: `topic orders.events.v1`. */
  readonly from: readonly string[];
  readonly topics: readonly string[];
  readonly contentType: string;
  /** The expressions of record keys. Empty: the event id. */
  readonly keys: readonly string[];
  readonly payload: Shape;
  /** The Avro schema of its payload, if configured. */
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
 * `undefined`: the file does not exist.
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
    throw new CatalogError(`${file} is no JSON${isConflict ? ': it holds a Git conflict' : ''}`);
  }
  if (!isObject(document) || !Number.isInteger(document.svcCatalog))
    throw new CatalogError(`${file} is not a catalog of svc`);
  if (document.svcCatalog !== version)
    throw new CatalogError(
      `${file} is a catalog of version ${document.svcCatalog}, and this svc knows version ${version}: install the svc version that wrote it`,
    );
  if (!isObject(document.events)) throw new CatalogError(`${file} has no events`);
  return new Map(
    Object.entries(document.events).map(([eventType, entry]) => {
      const event = eventOf(entry);
      if (event === undefined)
        throw new CatalogError(`${file}: its entry for ${JSON.stringify(eventType)} is not from svc catalog`);
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

/** One difference between two catalogs. */
export interface Change {
  readonly eventType: string;
  /** `payload.customer.email`; `''`: the event type itself. */
  readonly path: string;
  readonly says: string;
  /** Whether a correct consumer may fail now. */
  readonly breaks: boolean;
}

type Note = (path: string, says: string, breaks?: boolean) => void;

/** The changes for consumers, by event type. */
export function changesBetween(before: Catalog, after: Catalog): Change[] {
  const found: Change[] = [];
  for (const eventType of [...new Set([...before.keys(), ...after.keys()])].sort()) {
    const [old, now] = [before.get(eventType), after.get(eventType)];
    const note: Note = (path, says, breaks = false) => found.push({ eventType, path, says, breaks });
    if (now === undefined) note('', 'is no longer published', true);
    else if (old === undefined) note('', 'is new');
    else compareEvents(old, now, note);
  }
  return found;
}

function compareEvents(old: CatalogEvent, now: CatalogEvent, note: Note): void {
  const gone = old.topics.filter((topic) => !now.topics.includes(topic));
  const more = now.topics.filter((topic) => !old.topics.includes(topic));
  if (gone.length > 0)
    note(
      'topic',
      `${gone.join(', ')} has it no more${more.length > 0 ? `: it is in ${more.join(', ')}` : ''}`,
      true,
    );
  else if (more.length > 0) note('topic', `is in ${more.join(', ')} as well`);
  if (old.contentType !== now.contentType)
    note('content-type', `was ${old.contentType}, is ${now.contentType}`, true);
  if (old.keys.join('\n') !== now.keys.join('\n'))
    note('key', `is made from ${keysOf(now)}, was from ${keysOf(old)}: order is kept by key`);
  compare(old.payload, now.payload, 'payload', note);
  if (old.avro !== undefined && now.avro !== undefined && now.contentType === 'application/avro')
    compareAvro(old.avro, now.avro, note);
}

const keysOf = ({ keys }: CatalogEvent): string => (keys.length === 0 ? 'the event id' : keys.join(' or '));

function compare(old: Shape, now: Shape, path: string, note: Note): void {
  if (now.protection !== undefined && now.protection !== old.protection && isKnown(old))
    note(path, `is ${now.protection} now`, true);
  else if (old.protection !== undefined && now.protection === undefined)
    note(path, `is no longer ${old.protection}`);
  if (!isKnown(old)) {
    if (isKnown(now)) note(path, `is known now: ${now.type?.join(' or ')}`);
    return;
  }
  if (!isKnown(now)) {
    note(path, `was ${old.type?.join(' or ')}, and is no longer known`, true);
    return;
  }
  compareTypes(old.type as Kind[], now.type as Kind[], path, note);
  if (old.type?.includes('object') && now.type?.includes('object')) compareObjects(old, now, path, note);
  if (old.items !== undefined) compare(old.items, now.items ?? {}, `${path}[*]`, note);
  else if (now.items !== undefined) note(`${path}[*]`, 'is known now');
}

function compareTypes(old: readonly Kind[], now: readonly Kind[], path: string, note: Note): void {
  const gained = now.filter((kind) => !old.includes(kind) && !(kind === 'integer' && old.includes('number')));
  const lost = old.filter((kind) => !now.includes(kind) && !(kind === 'integer' && now.includes('number')));
  if (gained.length === 1 && gained[0] === 'null') note(path, 'can now be null', true);
  else if (gained.length > 0) note(path, `was ${old.join(' or ')}, is ${now.join(' or ')}`, true);
  else if (lost.length > 0) note(path, `is ${now.join(' or ')} only, was ${old.join(' or ')}`);
}

function compareObjects(old: Shape, now: Shape, path: string, note: Note): void {
  for (const name of namesOf(old)) {
    const below = `${path}${stepOf(name)}`;
    const [before, after] = [propertyNamed(old, name), propertyNamed(now, name)];
    if (after === undefined) {
      note(below, 'is removed', true);
      continue;
    }
    const [was, is] = [old.required?.includes(name), now.required?.includes(name)];
    if (was && !is) note(below, 'can now be missing', true);
    if (!was && is && old.required !== undefined) note(below, 'is always present now');
    compare(before as Shape, after, below, note);
  }
  for (const name of namesOf(now)) {
    if (propertyNamed(old, name) !== undefined) continue;
    const isDemanded = now.required?.includes(name) && old.required !== undefined;
    if (isDemanded)
      note(`${path}${stepOf(name)}`, 'is new and required, but older events do not have it', true);
    else note(`${path}${stepOf(name)}`, 'is new');
  }
  const others = `${path}.*`;
  if (old.additionalProperties !== undefined)
    compare(old.additionalProperties, now.additionalProperties ?? {}, others, note);
  else if (now.additionalProperties !== undefined) note(others, 'is known now');
}

function stepOf(name: string): string {
  return /^[A-Za-z_$][\w$-]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
}

/** Compares like a schema registry, in both directions. */
function compareAvro(old: unknown, now: unknown, note: Note): void {
  if (JSON.stringify(old) === JSON.stringify(now)) return;
  const { Type } = loadAvsc();
  const typeOf = (schema: unknown) => Type.forSchema(schema as Parameters<typeof Type.forSchema>[0]);
  const reads = (reader: unknown, writer: unknown): boolean => {
    try {
      typeOf(reader).createResolver(typeOf(writer));
      return true;
    } catch {
      return false;
    }
  };
  if (!reads(old, now)) note('avro', 'readers with the old schema cannot read it', true);
  if (!reads(now, old)) note('avro', 'readers with this schema cannot read older events', true);
}
