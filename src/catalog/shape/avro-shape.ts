import { kindsOf, merged, propertiesOf, type Shape, unknownShape } from './shape.ts';
import { isObject } from './written.ts';

const primitives: Readonly<Record<string, Shape>> = {
  null: { type: ['null'] },
  boolean: { type: ['boolean'] },
  int: { type: ['integer'] },
  long: { type: ['integer'] },
  float: { type: ['number'] },
  double: { type: ['number'] },
  string: { type: ['string'] },
  enum: { type: ['string'] },
};

/** As readers get times, and numbers that lose no digit. */
const asText = /^(?:timestamp-|time-|date$|decimal$)/;

/** What a payload of this schema of Avro is as JSON. Of what JSON has no form of its own for nothing is known. */
export function shapeOfAvro(schema: unknown, named = new Map<string, unknown>(), depth = 0): Shape {
  if (depth > 50) return unknownShape;
  if (Array.isArray(schema)) return shapeOfUnion(schema, named, depth);
  if (typeof schema === 'string') {
    const shape = primitives[schema];
    if (shape !== undefined) return shape;
    const known = named.get(schema.split('.').at(-1) as string);
    return known === undefined ? unknownShape : shapeOfAvro(known, new Map(named), depth + 1);
  }
  if (!isObject(schema)) return unknownShape;
  const { type, logicalType, name, fields, items, values } = schema;
  if (typeof name === 'string') named.set(name.split('.').at(-1) as string, schema);
  if (typeof logicalType === 'string' && asText.test(logicalType)) return { type: ['string'] };
  if (Array.isArray(type) || isObject(type)) return shapeOfAvro(type, named, depth + 1);
  if (type === 'array') return { type: ['array'], items: shapeOfAvro(items, named, depth + 1) };
  if (type === 'map')
    return { type: ['object'], additionalProperties: shapeOfAvro(values, named, depth + 1) };
  if ((type === 'record' || type === 'error') && Array.isArray(fields)) {
    const all = (fields as unknown[]).filter(isObject).map((field) => {
      return [String(field.name), shapeOfAvro(field.type, named, depth + 1)] as const;
    });
    return { type: ['object'], properties: propertiesOf(all), required: all.map(([each]) => each).sort() };
  }
  return typeof type === 'string' && type !== 'record' ? shapeOfAvro(type, named, depth + 1) : unknownShape;
}

/** Of several records and maps readers get the one by its name: `{ "com.example.Card": { … } }`. */
function shapeOfUnion(all: readonly unknown[], named: Map<string, unknown>, depth: number): Shape {
  const shapes = all.map((each) => shapeOfAvro(each, named, depth + 1));
  if (shapes.some(({ type }) => type === undefined)) return unknownShape;
  if (shapes.filter(({ type }) => type?.includes('object')).length < 2)
    return shapes.reduce((found, each) => merged(found, each));
  const others = shapes.filter(({ type }) => !type?.includes('object'));
  const rest = others.reduce<Shape>((found, each) => merged(found, each), unknownShape);
  return { ...rest, type: kindsOf([...(rest.type ?? []), 'object']) };
}
