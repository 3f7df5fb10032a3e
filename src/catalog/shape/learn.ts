import { isDataName } from './data-names.ts';
import { protectionOf } from './protected.ts';
import {
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

/** What the values at one place in payloads were like. Never a value. */
export interface Place {
  readonly kinds: Set<Kind>;
  protection: Protection | undefined;
  /** Objects that were there. */
  objectCount: number;
  readonly names: Map<string, Named>;
  /** What stands behind names that are data. */
  others: Place | undefined;
  items: Place | undefined;
}

interface Named {
  count: number;
  readonly place: Place;
}

const limits = { depth: 32, names: 200, items: 100 };

/** How many more names of one event type are told apart. */
export interface Budget {
  names: number;
}

/** More than these are in no payload that people have written down. */
export const newBudget = (): Budget => ({ names: 5_000 });

/** So many objects tell that a name that most of them have is a field. */
const enoughObjects = 10;
/** More names than these that are in few objects each are the keys of a map. */
const mostStray = 8;

export function newPlace(): Place {
  return {
    ...{ kinds: new Set<Kind>(), protection: undefined, objectCount: 0, names: new Map() },
    ...{ others: undefined, items: undefined },
  };
}

/** @param known what the catalog says of this place already */
export function see(place: Place, value: unknown, known: Shape, budget: Budget, depth = 0): void {
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
 * What is known of a place with what it has seen. A name becomes a property where the catalog has it, where the sources of the
 * application have it as a word (`isWord`), or where most of the objects have it; else it may be data.
 */
export function learned(place: Place, known: Shape, isWord: (name: string) => boolean): Shape {
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
  const isMap = others !== undefined || known.additionalProperties !== undefined || stray.length > mostStray;
  if (!isMap) return { fields: all.filter(isField), stray, isMap };
  // Among the keys of a map a word of the sources is a key as well, but for those that most have.
  const isSure = ([name, named]: [string, Named]) =>
    isKnown(name) || isCommon(named) || (isWord(name) && isInHalf(named));
  return { fields: all.filter(isSure), stray: all.filter((each) => !isSure(each)), isMap };
}

/** How many names are not told yet, as they may be data. */
export function heldBack(place: Place, known: Shape, isWord: (name: string) => boolean): number {
  const { fields, stray, isMap } = sorted(place, known, isWord);
  const below = fields.map(([name, { place: each }]) =>
    heldBack(each, propertyNamed(known, name) ?? unknownShape, isWord),
  );
  const inItems = place.items === undefined ? 0 : heldBack(place.items, known.items ?? unknownShape, isWord);
  return (isMap ? 0 : stray.length) + inItems + below.reduce((sum, each) => sum + each, 0);
}
