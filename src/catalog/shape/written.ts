import { type Kind, kindsOf, namesOf, propertiesOf, propertyNamed, type Shape } from './shape.ts';

/** A shape as a JSON document has it, with what a form makes of the protection of a text. */
export function written(
  { type, properties, required, additionalProperties, items, protection }: Shape,
  noteOf: (protection: NonNullable<Shape['protection']>) => object,
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

const mostDepth = 100;
const protections: readonly unknown[] = ['encrypted', 'hashed', 'masked'];
const kinds: readonly unknown[] = ['string', 'integer', 'number', 'boolean', 'object', 'array', 'null'];

/** The way back, of the file. `undefined`: it is none. */
export function readShape(value: unknown, depth = 0): Shape | undefined {
  if (!isObject(value) || depth > mostDepth) return undefined;
  const { type, properties = {}, required = [], additionalProperties, items, protection } = value;
  const types = type === undefined || Array.isArray(type) ? type : [type];
  if (types?.every((each) => kinds.includes(each)) === false || !isObject(properties)) return undefined;
  if (!areTexts(required) || (protection !== undefined && !protections.includes(protection)))
    return undefined;
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
    ...(protection !== undefined && { protection: protection as NonNullable<Shape['protection']> }),
  };
  if (!('required' in value)) return shape;
  return { ...shape, required: required.filter((name) => propertyNamed(shape, name) !== undefined) };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function areTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}

/** Whether two say the same. */
export function areAlike(a: Shape, b: Shape): boolean {
  const text = (shape: Shape) => JSON.stringify(written(shape, (protection) => ({ protection })));
  return namesOf(a).length === namesOf(b).length && text(a) === text(b);
}
