import {
  type Kind,
  kinds,
  kindsOf,
  type Protection,
  propertiesOf,
  propertyNamed,
  protections,
  type Shape,
} from './shape.ts';

/** A shape as a JSON document has it, with what a form makes of the protection of a text. */
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

const mostDepth = 100;
const isIn = <T>(all: readonly T[], value: unknown): value is T =>
  (all as readonly unknown[]).includes(value);

/** The way back, of the file. `undefined`: it is none. */
export function readShape(value: unknown, depth = 0): Shape | undefined {
  if (!isObject(value) || depth > mostDepth) return undefined;
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

export function areTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}
