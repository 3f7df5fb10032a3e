import { flag, oneOf, type Rows, secret, text } from './option.ts';

/** The form of record values. */
export const serdeOptions = {
  /** Form of the record value: `JSON`, or `AVRO` in the wire format of Confluent, with schemas in a registry (install `avsc`). */
  'svc.serde.type': oneOf(['JSON', 'AVRO'], 'JSON'),
  /** What surrounds the payload: `svc`, the envelope of svc, or `cloudevents`: CloudEvents 1.0, the payload as their `data`. */
  'svc.serde.envelope': oneOf(['svc', 'cloudevents'], 'svc'),
  /** Mode of the Kafka protocol binding of CloudEvents: `binary`, attributes in headers and the payload as value, or `structured`, all in the value. */
  'svc.serde.cloudevents.mode': oneOf(['binary', 'structured'], 'binary'),
  /** Attribute `source` of CloudEvents: a URI-reference, such as `https://example.com/orders`. */
  'svc.serde.cloudevents.source': text('uri-reference', { defaultText: '`/` and the name of the service' }),
  /** Schema registry with the API of Confluent, such as `https://registry.example.com:8081`. Required for `AVRO`. */
  'svc.serde.schema-registry-url': text('url', { aliases: ['SCHEMA_REGISTRY_URL'] }),
  /** User of the registry, or its API key (basic authentication). */
  'svc.serde.schema-registry-username': text('text'),
  /** Password of that user, or the secret of the API key. */
  'svc.serde.schema-registry-password': secret(),
  /** Token for the registry (bearer authentication). */
  'svc.serde.schema-registry-token': secret('token'),
  /** File that holds the token, read at each request: an agent may renew it. */
  'svc.serde.schema-registry-token-file': text('path'),
  /** PEM file of the authorities to trust. */
  'svc.serde.schema-registry-ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** Files with the Avro schema of the payload, by event type: `{ ORDER_CREATED: schemas/order.avsc }`. The payload of other types is JSON in a string. */
  'svc.serde.schemas': { type: 'names' },
  /** Subject of a schema: `topic` (`<topic>-value`, for topics with one event type), `record` (its full name), or both. */
  'svc.serde.subject-name-strategy': oneOf(['topic', 'record', 'topic-record'], 'topic-record'),
  /** Registers schemas that the registry lacks. When false they must be there. */
  'svc.serde.auto-register': flag(true),
  /** Where events go whose schema id is not known yet, while the registry is away: `wait` in memory while `svc.retry` tries again, then in the backup, or straight in the `backup`: as JSON, which is encoded once the registry answers. */
  'svc.serde.on-registry-unavailable': oneOf(['wait', 'backup'], 'wait'),
} as const satisfies Rows;
