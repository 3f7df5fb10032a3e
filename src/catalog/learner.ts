import { join } from 'node:path';
import type { Config } from '../config/config.ts';
import { readSource } from '../context/source.ts';
import { cipherTexts } from '../protect/keys/key-ring.ts';
import type { DeclaredTypes } from './declared.ts';
import { madeCatalog } from './forms.ts';
import {
  type Catalog,
  type CatalogEvent,
  isObject,
  type Kind,
  kindsOf,
  merged,
  namesOf,
  type Protection,
  propertiesOf,
  propertyNamed,
  type Shape,
  unknownShape,
} from './shape.ts';

/** The application according to its sources. */
interface Application {
  readonly config: Config;
  readonly declared: DeclaredTypes;
  /** Whether its sources contain this word. */
  readonly isWord: (name: string) => boolean;
}

interface Seen {
  readonly payload: Place;
  readonly budget: Budget;
  readonly topics: Set<string>;
  readonly contentType: string;
}

/** Limit of undeclared types. More of them are computed at runtime. */
const maxUndeclared = 1_000;
const typeLike = /^(?!.*\d{4})[A-Za-z][\w.:/-]{0,99}$/;

/**
 * Learns the shape of payloads from real events, without keeping values.
 *
 * @throws CatalogError if a configured schema cannot be read
 */
export function createLearner(first: Application, before: Catalog) {
  let application = first;
  let known = madeCatalog(first.declared, first.config, before);
  const { service: given, baseDir } = first.config;
  const service = readSource({ ...given, entry: join(baseDir, 'package.json') }).serviceName;
  const all = new Map<string, Seen>();
  let undeclaredCount = 0;

  function seenOf(eventType: string, topic: string, contentType: string): Seen | undefined {
    let seen = all.get(eventType);
    if (seen === undefined) {
      if (!known.has(eventType) && ++undeclaredCount > maxUndeclared) return undefined;
      seen = { payload: newPlace(), budget: newBudget(), topics: new Set(), contentType };
      all.set(eventType, seen);
    }
    seen.topics.add(topic);
    return seen;
  }

  const shapeBefore = (eventType: string) => known.get(eventType)?.payload ?? unknownShape;

  function eventWith(eventType: string, { payload, topics, contentType }: Seen): CatalogEvent {
    const event = known.get(eventType) ?? {
      from: [],
      topics: [],
      contentType,
      keys: [],
      payload: unknownShape,
    };
    const declared = application.declared.types.get(eventType);
    const knownTopics = declared !== undefined && declared.topics.length > 0;
    const found = knownTopics ? event.topics : [...new Set([...event.topics, ...topics])].sort();
    return {
      ...event,
      topics: found,
      payload: learned(payload, event.payload, application.isWord),
    };
  }

  return {
    /** `left out`: of another service, or a type that looks like data. */
    learn(
      topic: string,
      contentType = 'application/json',
      value: unknown,
    ): 'learned' | 'left out' | 'no event' {
      if (!isObject(value) || !isObject(value.payload)) return 'no event';
      const { eventId, eventType, metadata, payload } = value;
      if (typeof eventId !== 'string' || typeof eventType !== 'string' || !isObject(metadata))
        return 'no event';
      const { serviceName = null } = isObject(metadata.source) ? metadata.source : {};
      const isOwn = serviceName === null || service === null || serviceName === service;
      if (!known.has(eventType) && !(isOwn && typeLike.test(eventType))) return 'left out';
      const seen = seenOf(eventType, topic, contentType);
      if (seen === undefined) return 'left out';
      see(seen.payload, payload, shapeBefore(eventType), seen.budget);
      return 'learned';
    },
    /**
     * Replaces the application, which may change while svc learns.
     *
     * @throws CatalogError
     */
    use(next: Application): void {
      application = next;
      known = madeCatalog(next.declared, next.config, before);
    },
    /** With everything learned so far. */
    catalog(): Catalog {
      const { declared, config } = application;
      const after = new Map(known);
      for (const [eventType, seen] of all) after.set(eventType, eventWith(eventType, seen));
      return madeCatalog(declared, config, after);
    },
    /** Number of event types seen. */
    seen: (): number => all.size,
    /** Number of names that may be data, and are not in the catalog yet. */
    heldBack: (): number =>
      [...all].reduce(
        (sum, [type, { payload }]) => sum + heldBack(payload, shapeBefore(type), application.isWord),
        0,
      ),
  };
}

/** The values seen at one place in payloads, without the values themselves. */
interface Place {
  readonly kinds: Set<Kind>;
  protection: Protection | undefined;
  /** Number of objects seen. */
  objectCount: number;
  readonly names: Map<string, Named>;
  /** Values behind names that are data. */
  others: Place | undefined;
  items: Place | undefined;
}

interface Named {
  count: number;
  readonly place: Place;
}

const limits = { depth: 32, names: 200, items: 100 };

/** How many more names of one event type are distinguished. */
interface Budget {
  names: number;
}

/** More than any handwritten payload has. */
const newBudget = (): Budget => ({ names: 5_000 });

/** With this many objects, a name that half of them have is a field. */
const enoughObjects = 10;
/** More rare names than this are the keys of a map. */
const maxStray = 8;

function newPlace(): Place {
  return {
    ...{ kinds: new Set<Kind>(), protection: undefined, objectCount: 0, names: new Map() },
    ...{ others: undefined, items: undefined },
  };
}

/** @param known the shape in the catalog */
function see(place: Place, value: unknown, known: Shape, budget: Budget, depth = 0): void {
  switch (typeof value) {
    case 'string':
      place.kinds.add('string');
      place.protection ??= protectionOf(value);
      return;
    case 'number':
      place.kinds.add(Number.isInteger(value) ? 'integer' : 'number');
      return;
    case 'boolean':
      place.kinds.add('boolean');
      return;
  }
  if (value === null) place.kinds.add('null');
  else if (Array.isArray(value)) seeArray(place, value, known, budget, depth);
  else if (typeof value === 'object' && !ArrayBuffer.isView(value))
    seeObject(place, value, known, budget, depth);
}

function seeArray(
  place: Place,
  value: readonly unknown[],
  known: Shape,
  budget: Budget,
  depth: number,
): void {
  place.kinds.add('array');
  if (depth >= limits.depth || value.length === 0) return;
  place.items ??= newPlace();
  for (const item of value.slice(0, limits.items))
    see(place.items, item, known.items ?? unknownShape, budget, depth + 1);
}

function seeObject(place: Place, value: object, known: Shape, budget: Budget, depth: number): void {
  place.kinds.add('object');
  place.objectCount++;
  if (depth >= limits.depth) return;
  for (const [name, below] of Object.entries(value)) {
    const knownBelow = propertyNamed(known, name);
    const named = knownBelow === undefined && isDataName(name) ? undefined : nameIn(place, name, budget);
    if (named !== undefined) {
      named.count++;
      see(named.place, below, knownBelow ?? unknownShape, budget, depth + 1);
      continue;
    }
    place.others ??= newPlace();
    see(place.others, below, known.additionalProperties ?? unknownShape, budget, depth + 1);
  }
}

function nameIn({ names }: Place, name: string, budget: Budget): Named | undefined {
  const named = names.get(name);
  if (named !== undefined || names.size >= limits.names || budget.names === 0) return named;
  budget.names--;
  const fresh = { count: 0, place: newPlace() };
  names.set(name, fresh);
  return fresh;
}

/**
 * Adds what was seen to the known shape. A name becomes a property if the catalog has it, the application's sources contain it (`isWord`),
 * or half of the objects have it. Otherwise it may be data.
 */
function learned(place: Place, known: Shape, isWord: (name: string) => boolean): Shape {
  if (place.kinds.size === 0) return known;
  const protection = place.protection ?? known.protection;
  const items =
    place.items === undefined ? known.items : learned(place.items, known.items ?? unknownShape, isWord);
  return {
    type: kindsOf([...(known.type ?? []), ...place.kinds]),
    ...(place.objectCount === 0 ? objectPart(known) : learnedObject(place, known, isWord)),
    ...(items !== undefined && { items }),
    ...(protection !== undefined && { protection }),
  };
}

function objectPart({ properties, required, additionalProperties }: Shape): Shape {
  return {
    ...(properties !== undefined && { properties }),
    ...(required !== undefined && { required }),
    ...(additionalProperties !== undefined && { additionalProperties }),
  };
}

function learnedObject(place: Place, known: Shape, isWord: (name: string) => boolean): Shape {
  const { objectCount } = place;
  const { fields, stray, isMap } = sorted(place, known, isWord);
  const shapeOf = (name: string, { place: below }: Named) =>
    learned(below, propertyNamed(known, name) ?? unknownShape, isWord);
  const unseen = namesOf(known).filter((name) => !place.names.has(name));
  const always = fields.filter(([, { count }]) => count === objectCount).map(([name]) => name);
  const required =
    known.required === undefined ? always : known.required.filter((name) => always.includes(name));
  const others = [
    ...(known.additionalProperties ? [known.additionalProperties] : []),
    ...(place.others ? [learned(place.others, unknownShape, isWord)] : []),
    ...stray.map(([, { place: below }]) => learned(below, unknownShape, isWord)),
  ];
  return {
    properties: propertiesOf([
      ...fields.map(([name, named]) => [name, shapeOf(name, named)] as const),
      ...unseen.map((name) => [name, propertyNamed(known, name) ?? unknownShape] as const),
    ]),
    required: [...required].sort(),
    ...(isMap && others.length > 0 && { additionalProperties: others.reduce(merged) }),
  };
}

function sorted(
  { names, objectCount, others }: Place,
  known: Shape,
  isWord: (name: string) => boolean,
): { fields: [string, Named][]; stray: [string, Named][]; isMap: boolean } {
  const isInHalf = ({ count }: Named) => count * 2 >= objectCount;
  const isCommon = (named: Named) => objectCount >= enoughObjects && isInHalf(named);
  const isKnown = (name: string) => propertyNamed(known, name) !== undefined;
  const all = [...names];
  const isField = ([name, named]: [string, Named]) => isKnown(name) || isCommon(named) || isWord(name);
  const stray = all.filter((each) => !isField(each));
  const isMap = others !== undefined || known.additionalProperties !== undefined || stray.length > maxStray;
  if (!isMap) return { fields: all.filter(isField), stray, isMap };
  // In a map, a word of the sources counts as a key unless half of the objects have it.
  const isSure = ([name, named]: [string, Named]) =>
    isKnown(name) || isCommon(named) || (isWord(name) && isInHalf(named));
  return { fields: all.filter(isSure), stray: all.filter((each) => !isSure(each)), isMap };
}

/** Number of names that may be data. */
function heldBack(place: Place, known: Shape, isWord: (name: string) => boolean): number {
  const { fields, stray, isMap } = sorted(place, known, isWord);
  const below = fields.map(([name, { place: each }]) =>
    heldBack(each, propertyNamed(known, name) ?? unknownShape, isWord),
  );
  const inItems = place.items === undefined ? 0 : heldBack(place.items, known.items ?? unknownShape, isWord);
  return (isMap ? 0 : stray.length) + inItems + below.reduce((sum, each) => sum + each, 0);
}

/** The form of field names. Other names are data, such as e-mail addresses as keys. */
const nameLike = /^[A-Za-z_$][\w$-]{0,63}$/;
const hexadecimal = /^(?=.*\d)[0-9a-f_-]{8,}$/i;
/** `u-17`, `order_23`; not `line1`. */
const numbered = /[-_]\d+$/;
/** `customer4711`, `aB3dE5fG7hJ9`: names rarely contain four digits. */
const fourDigits = /^(?:\D*\d){4}/;

/** Whether a name in an event is data: an id, date, address or number. It may be personal, so it never gets into the catalog. */
function isDataName(name: string): boolean {
  if (!nameLike.test(name) || name === '__proto__') return true;
  return hexadecimal.test(name) || numbered.test(name) || fourDigits.test(name);
}

/** How a text of an event was protected, if it shows. */
function protectionOf(text: string): Protection | undefined {
  if (cipherTexts.isOne(text)) return 'encrypted';
  return text.startsWith('HASH(') && text.endsWith(')') ? 'hashed' : undefined;
}
