import type { Option } from './option.ts';

/** The form of record values. */
export const serdeOptions = [
  {
    name: 'svc.serde.type',
    type: 'enum',
    values: ['JSON', 'AVRO'],
    default: 'JSON',
    description:
      'Form of the record value: `JSON`, or `AVRO` in the wire format of Confluent, with schemas in a registry (install `avsc`).',
  },
  {
    name: 'svc.serde.schema-registry-url',
    type: 'string',
    format: 'url',
    aliases: ['SCHEMA_REGISTRY_URL'],
    description:
      'Schema registry with the API of Confluent, such as `https://registry.example.com:8081`. Required for `AVRO`.',
  },
  {
    name: 'svc.serde.schema-registry-username',
    type: 'string',
    format: 'text',
    description: 'User of the registry, or its API key (basic authentication).',
  },
  {
    name: 'svc.serde.schema-registry-password',
    type: 'string',
    secret: true,
    description: 'Password of that user, or the secret of the API key.',
  },
  {
    name: 'svc.serde.schema-registry-token',
    type: 'string',
    format: 'token',
    secret: true,
    description: 'Token for the registry (bearer authentication).',
  },
  {
    name: 'svc.serde.schema-registry-token-file',
    type: 'string',
    format: 'path',
    description: 'File that holds the token, read at each request: an agent may renew it.',
  },
  {
    name: 'svc.serde.schema-registry-ca-file',
    type: 'string',
    format: 'path',
    defaultText: 'the authorities that Node trusts',
    description: 'PEM file of the authorities to trust.',
  },
  {
    name: 'svc.serde.schemas',
    type: 'names',
    description:
      'Files with the Avro schema of the payload, by event type: `{ ORDER_CREATED: schemas/order.avsc }`. The payload of other types is JSON in a string.',
  },
  {
    name: 'svc.serde.subject-name-strategy',
    type: 'enum',
    values: ['topic', 'record', 'topic-record'],
    default: 'topic-record',
    description:
      'Subject of a schema: `topic` (`<topic>-value`, for topics with one event type), `record` (its full name), or both.',
  },
  {
    name: 'svc.serde.auto-register',
    type: 'boolean',
    default: true,
    description: 'Registers schemas that the registry lacks. When false they must be there.',
  },
  {
    name: 'svc.serde.on-registry-unavailable',
    type: 'enum',
    values: ['wait', 'backup'],
    default: 'wait',
    description:
      'Where events go whose schema id is not known yet, while the registry is away: `wait` in memory while `svc.retry` tries again, then in the backup, or straight in the `backup`: as JSON, which is encoded once the registry answers.',
  },
] as const satisfies readonly Option[];
