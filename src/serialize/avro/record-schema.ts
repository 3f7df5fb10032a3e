/** A schema as JSON has it. */
export type AvroSchema = string | readonly AvroSchema[] | { readonly [name: string]: unknown };

const namespace = 'svc.events';
const nullable = (name: string): object => ({ name, type: ['null', 'string'], default: null });
const time = (name: string): object => ({ name, type: { type: 'long', logicalType: 'timestamp-millis' } });
const group = (name: string, type: string, fields: readonly string[]): object => ({
  name,
  type: { type: 'record', name: type, fields: fields.map(nullable) },
});

/** What stands before `publishedAt`, which is put in between when the record is handed over. */
export const headFields: readonly object[] = [
  { name: 'eventId', type: 'string' },
  { name: 'eventType', type: 'string' },
  time('occurredAt'),
];

export const tailFields = (payload: AvroSchema): readonly object[] => [
  { name: 'severity', type: 'string' },
  {
    name: 'metadata',
    type: {
      type: 'record',
      name: 'Metadata',
      fields: [
        group('source', 'Source', ['serviceName', 'serviceVersion', 'hostname']),
        group('actor', 'Actor', ['userId', 'sessionId']),
        group('trace', 'Trace', ['traceId', 'spanId', 'parentSpanId']),
        nullable('correlationId'),
        nullable('clientIp'),
        { name: 'tags', type: { type: 'map', values: 'string' } },
      ],
    },
  },
  { name: 'payload', type: payload },
];

/** An event type as a name of Avro: `order.created` is `order_created`. */
export function recordName(eventType: string): string {
  return `${namespace}.${eventType.replace(/[^A-Za-z0-9_]/g, '_').replace(/^(?=\d|$)/, '_')}`;
}

/** The schema of an event type: the envelope's fields at the top. `payload`: `string` for the payload as JSON text. */
export function recordSchema(eventType: string, payload: AvroSchema): AvroSchema {
  const fields = [...headFields, time('publishedAt'), ...tailFields(payloadSchema(eventType, payload))];
  return partOf(eventType, fields);
}

/** Where names of a payload are that have no namespace, and would be names of the envelope there. */
const payloadNamespace = `${namespace}.payload`;
const envelopeNames = ['Metadata', 'Source', 'Actor', 'Trace'];
const primitives = new Set(['null', 'boolean', 'int', 'long', 'float', 'double', 'bytes', 'string']);

/**
 * The schema of a payload as a part of the record: as it is, unless it defines a name that is one of the envelope's there. Then all of
 * its names without a namespace get one.
 */
export function payloadSchema(eventType: string, payload: AvroSchema): AvroSchema {
  const taken = new Set([...envelopeNames, recordName(eventType).slice(namespace.length + 1)]);
  let collides = false;
  visitNames(payload, (name) => {
    collides ||= taken.has(name);
    return name;
  });
  return collides ? visitNames(payload, (name) => `${payloadNamespace}.${name}`) : payload;
}

/** Each name that is in no namespace, where it is defined and where it is used. */
function visitNames(schema: AvroSchema, rename: (name: string) => string): AvroSchema {
  if (typeof schema === 'string')
    return primitives.has(schema) || schema.includes('.') ? schema : rename(schema);
  if (Array.isArray(schema)) return schema.map((each) => visitNames(each, rename));
  if (typeof schema !== 'object' || schema === null) return schema;
  const {
    type,
    name,
    namespace: own,
    fields,
    items,
    values,
  } = schema as Readonly<Record<string, AvroSchema>>;
  const isNamed =
    typeof name === 'string' &&
    (type === 'record' || type === 'enum' || type === 'fixed' || type === 'error');
  if (isNamed && (name.includes('.') || (own !== undefined && own !== ''))) return schema;
  const inner = (each: AvroSchema | undefined): AvroSchema => visitNames(each as AvroSchema, rename);
  const { namespace: _, ...rest } = schema as Readonly<Record<string, unknown>>;
  return {
    ...(isNamed ? rest : schema),
    ...(isNamed && { name: rename(name) }),
    ...(!isNamed && type !== undefined && type !== 'array' && type !== 'map' && { type: inner(type) }),
    ...(type === 'array' && { items: inner(items) }),
    ...(type === 'map' && { values: inner(values) }),
    ...(Array.isArray(fields) && {
      fields: fields.map((field: object) => ({
        ...field,
        type: inner((field as { type: AvroSchema }).type),
      })),
    }),
  };
}

export function partOf(eventType: string, fields: readonly object[]): AvroSchema {
  return { type: 'record', name: recordName(eventType), fields };
}
