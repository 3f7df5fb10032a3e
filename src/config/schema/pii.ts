import type { Option } from './option.ts';

/** Protection of personal data: which fields, with which keys. */
export const piiOptions = [
  {
    name: 'svc.pii.enabled',
    type: 'boolean',
    default: true,
    description:
      'Protects what is marked, by rules here and by `@PiiField`. When false everything is published as it is.',
  },
  {
    name: 'svc.pii.fields',
    type: 'rules',
    default: [],
    description:
      'Rules for fields of all payloads: `customer.email`, `items[*].phone`, `**.ssn` (at any depth), each as a path, as `path=TYPE:STRATEGY:LEVEL`, or as `{ path, type, strategy, level, keyId, masker }`.',
  },
  {
    name: 'svc.pii.detect',
    type: 'enum',
    values: ['off', 'report'],
    default: 'off',
    description:
      '`report` warns once of each path whose values look like personal data (e-mail, phone, card, IBAN) and carry no mark. Costs time: for tests and staging.',
  },
  {
    name: 'svc.pii.crypto.default-key',
    type: 'string',
    format: 'text',
    secret: true,
    aliases: ['PII_ENCRYPTION_KEY'],
    description: 'Key of ENCRYPT: Base64 of 32 bytes (or 32 characters). Its id is `default`.',
  },
  {
    name: 'svc.pii.crypto.keys',
    type: 'keys',
    secret: true,
    description:
      'Further keys, for rotation: a list of `{ id, key, status }`. The one with status `primary` encrypts; those with `decrypt` encrypt nothing any more.',
  },
  {
    name: 'svc.pii.crypto.salt',
    type: 'string',
    format: 'text',
    secret: true,
    aliases: ['PII_HASH_SALT'],
    defaultText: 'a public text, with a security warning; none in production',
    description: 'Key of HASH: 16 random bytes or more.',
  },
  {
    name: 'svc.pii.crypto.require-salt',
    type: 'boolean',
    defaultText: '`true` where NODE_ENV is `production`',
    description: 'Refuses to start when a rule hashes and no salt is configured.',
  },
  {
    name: 'svc.pii.crypto.format',
    type: 'enum',
    values: ['specification', 'v1'],
    default: 'specification',
    description:
      'Layout of ciphertexts. `specification` is read by other languages; `v1` adds the key id, and opens only in the field it was written to.',
  },
  {
    name: 'svc.pii.kms.enabled',
    type: 'boolean',
    default: false,
    description: 'Takes the keys of ENCRYPT from a key management service instead of `svc.pii.crypto`.',
  },
  {
    name: 'svc.pii.kms.type',
    type: 'enum',
    values: ['aws', 'vault'],
    registeredBy: 'registerKeyProvider',
    description: 'AWS KMS (install `@aws-sdk/client-kms`), or HashiCorp Vault and OpenBao.',
  },
  {
    name: 'svc.pii.kms.on-unavailable',
    type: 'enum',
    values: ['refuse', 'hold'],
    default: 'refuse',
    description:
      'What becomes of events while their key cannot be had: `refuse`, or `hold` in memory until it can, as many as `svc.broker.buffer.max-events` and each for `svc.broker.delivery-timeout-ms`; later events wait behind them. Events of the outbox are refused, as their transaction cannot wait.',
  },
  {
    name: 'svc.pii.kms.keys',
    type: 'names',
    description:
      'What the service calls each key, by the `keyId` of rules: `{ customer: arn:… }`. Of a list the first makes new keys. Default: the same name.',
  },
  {
    name: 'svc.pii.kms.aws.region',
    type: 'string',
    format: 'text',
    defaultText: 'as the AWS SDK finds it',
    description: 'Region of the keys.',
  },
  {
    name: 'svc.pii.kms.aws.endpoint',
    type: 'string',
    format: 'url',
    description: 'A VPC endpoint, or a test server.',
  },
  {
    name: 'svc.pii.kms.aws.default-key-arn',
    type: 'string',
    format: 'text',
    description: 'Key of rules without `keyId`: ARN, key id or `alias/…`.',
  },
  {
    name: 'svc.pii.kms.aws.encryption-context',
    type: 'names',
    description: 'Bound to each data key and shown in CloudTrail; readers must give the same. Not secret.',
  },
  ...cacheOptions('aws'),
  {
    name: 'svc.pii.kms.vault.address',
    type: 'string',
    format: 'url',
    aliases: ['VAULT_ADDR'],
    default: 'https://127.0.0.1:8200',
    description: 'Address of the server. `http:` only on loopback.',
  },
  {
    name: 'svc.pii.kms.vault.token',
    type: 'string',
    format: 'token',
    secret: true,
    aliases: ['VAULT_TOKEN'],
    description: 'Token to read keys with.',
  },
  {
    name: 'svc.pii.kms.vault.token-file',
    type: 'string',
    format: 'path',
    description: 'File that holds the token, read at each call: an agent may renew it.',
  },
  {
    name: 'svc.pii.kms.vault.namespace',
    type: 'string',
    format: 'text',
    aliases: ['VAULT_NAMESPACE'],
    description: 'Namespace of the server.',
  },
  {
    name: 'svc.pii.kms.vault.mode',
    type: 'enum',
    values: ['kv', 'kv-v1', 'kv-v2', 'transit'],
    default: 'kv',
    description:
      '`kv` (as `kv-v2`) and `kv-v1`: a K/V store holds the keys. `transit`: the server makes data keys (envelope encryption).',
  },
  {
    name: 'svc.pii.kms.vault.mount-path',
    type: 'string',
    format: 'text',
    defaultText: '`secret`, for Transit `transit`',
    description: 'Where the engine is mounted.',
  },
  {
    name: 'svc.pii.kms.vault.default-key-path',
    type: 'string',
    format: 'text',
    description:
      'Key of rules without `keyId`: path of the secret below the mount, or name of the Transit key.',
  },
  {
    name: 'svc.pii.kms.vault.field',
    type: 'string',
    format: 'text',
    default: 'key',
    description: 'Field of the secret that holds the key: Base64 of 32 bytes.',
  },
  {
    name: 'svc.pii.kms.vault.ca-file',
    type: 'string',
    format: 'path',
    defaultText: 'the authorities that Node trusts',
    description: 'PEM file of the authorities to trust.',
  },
  ...cacheOptions('vault'),
] as const satisfies readonly Option[];

function cacheOptions<const Type extends string>(type: Type) {
  return [
    {
      name: `svc.pii.kms.${type}.dek-cache-ttl-ms` as const,
      type: 'integer',
      unit: 'ms',
      min: 1000,
      max: 86_400_000,
      default: 300_000,
      description: 'How long a key is used before it is replaced, in the background.',
    },
    {
      name: `svc.pii.kms.${type}.dek-cache-max-size` as const,
      type: 'integer',
      min: 1,
      max: 10_000,
      default: 100,
      description: 'Keys that are kept; the oldest one goes first.',
    },
  ] as const satisfies readonly Option[];
}
