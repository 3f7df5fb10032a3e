import { printableJson } from '../../observe/printable.ts';
import type { Catalog, CatalogEvent } from '../catalog-file.ts';
import { isObject } from '../shape/written.ts';
import { avroText } from './avro.ts';
import { envelopeSchema, metadataSchema } from './json-schema.ts';
import { fileNameOf, namesFor } from './type-names.ts';

interface ApiInfo {
  readonly title: string;
  readonly version: string;
}

const reference = (to: string): object => ({ $ref: to });
const kafka = (binding: object): object => ({ kafka: { ...binding, bindingVersion: '0.5.0' } });

/** An AsyncAPI document: channels are topics, messages event types. Without servers, as these differ from environment to environment. */
export function asyncapiText(catalog: Catalog, info: ApiInfo): string {
  const names = namesFor(catalog.keys(), fileNameOf);
  const nameOf = (eventType: string): string => names.get(eventType) as string;
  const topics = [...new Set([...catalog.values()].flatMap((event) => event.topics))].sort();
  const typesOf = (topic: string): string[] =>
    [...catalog].flatMap(([eventType, event]) => (event.topics.includes(topic) ? [eventType] : []));
  const document = {
    asyncapi: '3.0.0',
    info,
    defaultContentType: 'application/json',
    channels: Object.fromEntries(
      topics.map((topic) => [
        topic,
        {
          address: topic,
          messages: Object.fromEntries(
            typesOf(topic).map((type) => [nameOf(type), reference(`#/components/messages/${nameOf(type)}`)]),
          ),
          bindings: kafka({ topic }),
        },
      ]),
    ),
    operations: Object.fromEntries(
      topics.map((topic) => [
        `send.${topic}`,
        {
          action: 'send',
          channel: reference(`#/channels/${topic}`),
          messages: typesOf(topic).map((type) => reference(`#/channels/${topic}/messages/${nameOf(type)}`)),
        },
      ]),
    ),
    components: {
      schemas: { Metadata: metadataSchema, Headers: headersSchema },
      messages: Object.fromEntries(
        [...catalog].map(([eventType, event]) => [nameOf(eventType), messageOf(eventType, event)]),
      ),
    },
  };
  return `${printableJson(document, 2)}\n`;
}

const headersSchema = {
  type: 'object',
  properties: {
    eventId: { type: 'string' },
    eventType: { type: 'string' },
    traceparent: { type: 'string' },
    tracestate: { type: 'string' },
  },
  required: ['eventId', 'eventType'],
};

function messageOf(eventType: string, event: CatalogEvent): object {
  const { keys, contentType, payload } = event;
  const description = keys.length === 0 ? 'the id of the event' : keys.join(' or ');
  return {
    name: eventType,
    title: eventType,
    contentType,
    headers: reference('#/components/schemas/Headers'),
    payload:
      contentType === 'application/avro'
        ? { schemaFormat: avroFormat, schema: withNamespaces(JSON.parse(avroText(eventType, event))) }
        : envelopeSchema(eventType, payload, reference('#/components/schemas/Metadata')),
    bindings: kafka({ key: { type: 'string', description } }),
  };
}

/** `svc.events.ORDER_CREATED` in two parts: the document takes no other. */
function withNamespaces(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withNamespaces);
  if (!isObject(schema)) return schema;
  const parts = Object.entries(schema).map(([key, value]) => [key, withNamespaces(value)]);
  const [, namespace, name] = /^(.+)\.([^.]+)$/.exec(String(schema.name)) ?? [];
  return { ...Object.fromEntries(parts), ...(namespace !== undefined && { namespace, name }) };
}

const avroFormat = 'application/vnd.apache.avro;version=1.9.0';
