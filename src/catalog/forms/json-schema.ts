// forms/: what a catalog is written as: JSON Schema, Avro, TypeScript, AsyncAPI.

import { severities } from '../../ground/event-fields.ts';
import { printableJson } from '../../observe/printable.ts';
import { isKnown, type Protection, type Shape } from '../shape/shape.ts';
import { written } from '../shape/written.ts';

export const protectionNotes: Readonly<Record<Protection, string>> = {
  encrypted: 'ENC(…): encrypted; decryptFields of svc/consumer opens it',
  hashed: 'HASH(…): a keyed hash, the same for the same value',
  masked: 'masked: parts of the value are hidden',
};

const nullable = { type: ['string', 'null'] } as const;
const object = (properties: Readonly<Record<string, object>>): object => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
});
const allNullable = (...names: string[]): object =>
  object(Object.fromEntries(names.map((name) => [name, nullable])));

/** What is not known is `null`. */
export const metadataSchema = object({
  source: allNullable('serviceName', 'serviceVersion', 'hostname'),
  actor: allNullable('userId', 'sessionId'),
  trace: allNullable('traceId', 'spanId', 'parentSpanId'),
  correlationId: nullable,
  clientIp: nullable,
  tags: { type: 'object', additionalProperties: { type: 'string' } },
});

/** The whole envelope of an event type. */
export function envelopeSchema(eventType: string, payload: Shape, metadata: object = metadataSchema): object {
  const time = { type: 'string', format: 'date-time' };
  return {
    title: eventType,
    ...object({
      eventId: { type: 'string' },
      eventType: { const: eventType },
      occurredAt: time,
      publishedAt: time,
      severity: { enum: severities },
      metadata,
      payload: payloadSchema(payload),
    }),
  };
}

/** Whatever is published, its payload is an object. */
export function payloadSchema(payload: Shape): object {
  if (!isKnown(payload)) return { type: 'object' };
  return written(payload, (protection) => ({ description: protectionNotes[protection] }));
}

export function jsonSchemaText(eventType: string, payload: Shape): string {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    ...envelopeSchema(eventType, payload),
  };
  return `${printableJson(schema, 2)}\n`;
}
