// shape/: what is known of the form of payloads: types and names, never a value.

export const kinds = ['string', 'integer', 'number', 'boolean', 'object', 'array', 'null'] as const;
export type Kind = (typeof kinds)[number];

export const protections = ['encrypted', 'hashed', 'masked'] as const;
export type Protection = (typeof protections)[number];

/** A JSON Schema of few words. Objects may have more properties than it names. */
export interface Shape {
  /** Left out: nothing is known yet. In the order of `kinds`. */
  readonly type?: readonly Kind[];
  readonly properties?: Properties;
  /** Left out: no event was seen, so that nothing is known of it. */
  readonly required?: readonly string[];
  /** Of the values behind names that are data, such as ids. */
  readonly additionalProperties?: Shape;
  readonly items?: Shape;
  readonly protection?: Protection;
  /** Of what the configuration or the code spells out: there are no other properties. Not kept in the file. */
  readonly isClosed?: true;
}

export type Properties = Readonly<Record<string, Shape>>;

export const unknownShape: Shape = {};

export const isKnown = ({ type }: Shape): boolean => type !== undefined;

export function propertyNamed({ properties = {} }: Shape, name: string): Shape | undefined {
  return Object.hasOwn(properties, name) ? properties[name] : undefined;
}

export function namesOf({ properties = {} }: Shape): string[] {
  return Object.keys(properties);
}

/** In one order, so that the same events make the same file. */
export function propertiesOf(entries: Iterable<readonly [string, Shape]>): Properties {
  return Object.fromEntries([...entries].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** An integer is a number. */
export function kindsOf(all: Iterable<Kind>): readonly Kind[] {
  const found = new Set(all);
  if (found.has('number')) found.delete('integer');
  return kinds.filter((kind) => found.has(kind));
}

/** What fits either of the two. */
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
