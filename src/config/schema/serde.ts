import { flag, oneOf, type Rows, secret, text } from './option.ts';

/** The form of record values. */
export const serdeOptions = {
  /** Format of the record value: `JSON`, or `AVRO` in Confluent's wire format with a schema registry (install `avsc`). */
  'svc.serde.type': oneOf(['JSON', 'AVRO'], 'JSON'),
  /** Envelope around the payload: `svc`, or `cloudevents` (CloudEvents 1.0, with the payload as `data`). */
  'svc.serde.envelope': oneOf(['svc', 'cloudevents'], 'svc'),
  /** Content mode of CloudEvents. `binary`: attributes in headers, the payload as the value. `structured`: everything in the value. */
  'svc.serde.cloudevents.mode': oneOf(['binary', 'structured'], 'binary'),
  /** Attribute `source` of CloudEvents: a URI reference, such as `https://example.com/orders`. */
  'svc.serde.cloudevents.source': text('uri-reference', { defaultText: '`/` and the name of the service' }),
  /** Schema registry with Confluent's API, such as `https://registry.example.com:8081`. Required for `AVRO`. */
  'svc.serde.schema-registry-url': text('url', { aliases: ['SCHEMA_REGISTRY_URL'] }),
  /** User of the registry, or its API key (basic authentication). */
  'svc.serde.schema-registry-username': text('text'),
  /** Password of the user, or secret of the API key. */
  'svc.serde.schema-registry-password': secret(),
  /** Token for the registry (bearer authentication). */
  'svc.serde.schema-registry-token': secret('token'),
  /** File with the token. svc reads it at each request, so an agent can renew it. */
  'svc.serde.schema-registry-token-file': text('path'),
  /** PEM file of certificate authorities to trust. */
  'svc.serde.schema-registry-ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** Files with the Avro schema of the payload, by event type: `{ ORDER_CREATED: schemas/order.avsc }`. Payloads of other types are JSON in a string. */
  'svc.serde.schemas': { type: 'names' },
  /** Subject of a schema: `topic` (`<topic>-value`, for topics with one event type), `record` (its full name), or both. */
  'svc.serde.subject-name-strategy': oneOf(['topic', 'record', 'topic-record'], 'topic-record'),
  /** Registers missing schemas. If false, the registry must have them. */
  'svc.serde.auto-register': flag(true),
  /** Where events with an unknown schema id go while the registry is away. `wait`: they stay in memory during the retries, then go to the backup. `backup`: they go there at once, as JSON, and are encoded once the registry answers. */
  'svc.serde.on-registry-unavailable': oneOf(['wait', 'backup'], 'wait'),
} as const satisfies Rows;
