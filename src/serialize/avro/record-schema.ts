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
  const fields = [...headFields, time('publishedAt'), ...tailFields(payload)];
  return partOf(eventType, fields);
}

export function partOf(eventType: string, fields: readonly object[]): AvroSchema {
  return { type: 'record', name: recordName(eventType), fields };
}
