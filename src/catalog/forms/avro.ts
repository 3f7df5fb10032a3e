import { printableJson } from '../../observe/printable.ts';
import { type AvroSchema, recordName, recordSchema } from '../../serialize/avro/record-schema.ts';
import type { CatalogEvent } from '../catalog-file.ts';
import { type Kind, namesOf, propertyNamed, type Shape } from '../shape/shape.ts';

/** The record schema of an event type. Where its payload is not known well enough for a type, it is JSON in a string, as svc writes it. */
export function avroText(eventType: string, event: CatalogEvent): string {
  const { payload, avro, contentType } = event;
  const isWritten = contentType === 'application/avro';
  const typed = avro ?? (isWritten ? undefined : payloadSchema(eventType, payload));
  return `${printableJson(recordSchema(eventType, (typed as AvroSchema) ?? 'string'), 2)}\n`;
}

/** `undefined`: Avro has no type for it. */
export function payloadSchema(eventType: string, payload: Shape): AvroSchema | undefined {
  const taken = new Set<string>();
  try {
    return typeOf(payload, 'payload');
  } catch (error) {
    if (error === noType) return undefined;
    throw error;
  }

  function typeOf(shape: Shape, path: string): AvroSchema {
    if (shape.type === undefined) throw noType;
    const [first, ...more] = shape.type.map((kind) => ofKind(kind, shape, path));
    return more.length === 0 ? (first as AvroSchema) : [first as AvroSchema, ...more];
  }

  function ofKind(kind: Kind, shape: Shape, path: string): AvroSchema {
    if (kind === 'object') return ofObject(shape, path);
    if (kind === 'array') return { type: 'array', items: typeOf(shape.items ?? {}, `${path}_item`) };
    return { string: 'string', integer: 'long', number: 'double', boolean: 'boolean', null: 'null' }[kind];
  }

  function ofObject(shape: Shape, path: string): AvroSchema {
    const { required = [], additionalProperties } = shape;
    const names = namesOf(shape);
    if (additionalProperties !== undefined) {
      if (names.length > 0) throw noType;
      return { type: 'map', values: typeOf(additionalProperties, `${path}_value`) };
    }
    if (names.some((name) => !/^[A-Za-z_]\w*$/.test(name))) throw noType;
    let name = path;
    while (taken.has(name)) name += '_';
    taken.add(name);
    return {
      type: 'record',
      name: `${recordName(eventType)}.${name}`,
      fields: names.map((each) => {
        const type = typeOf(propertyNamed(shape, each) as Shape, `${path}_${each}`);
        return required.includes(each)
          ? { name: each, type }
          : { name: each, type: withNull(type), default: null };
      }),
    };
  }
}

const noType = new Error('Avro has no type for it');

/** The default of a union is of its first type. */
function withNull(type: AvroSchema): AvroSchema {
  const all = Array.isArray(type) ? (type as readonly AvroSchema[]) : [type];
  return ['null', ...all.filter((each) => each !== 'null')];
}
