import { flag, integer, oneOf, type Rows, secret, text } from './option.ts';

/** Protection of personal data: which fields, with which keys. */
export const piiOptions = {
  /** Protects what is marked, by rules here and by `@PiiField`. When false everything is published as it is. */
  'svc.pii.enabled': flag(true),
  /** Rules for fields of all payloads: `customer.email`, `items[*].phone`, `**.ssn` (at any depth), each as a path, as `path=TYPE:STRATEGY:LEVEL`, or as `{ path, type, strategy, level, keyId, masker }`. */
  'svc.pii.fields': { type: 'rules', default: [] },
  /** `report` warns once of each path whose values look like personal data (e-mail, phone, card, IBAN) and carry no mark. Costs time: for tests and staging. */
  'svc.pii.detect': oneOf(['off', 'report'], 'off'),
  /** Key of ENCRYPT: Base64 of 32 bytes (or 32 characters). Its id is `default`. */
  'svc.pii.crypto.default-key': secret('text', { aliases: ['PII_ENCRYPTION_KEY'] }),
  /** Further keys, for rotation: a list of `{ id, key, status }`. The one with status `primary` encrypts; those with `decrypt` encrypt nothing any more. */
  'svc.pii.crypto.keys': { type: 'keys', secret: true },
  /** Key of HASH: 16 random bytes or more. */
  'svc.pii.crypto.salt': secret('text', {
    aliases: ['PII_HASH_SALT'],
    defaultText: 'a public text, with a security warning; none in production',
  }),
  /** Refuses to start when a rule hashes and no salt is configured. */
  'svc.pii.crypto.require-salt': flag(undefined, { defaultText: '`true` where NODE_ENV is `production`' }),
  /** Layout of ciphertexts. `specification` is read by other languages; `v1` adds the key id, and opens only in the field it was written to. */
  'svc.pii.crypto.format': oneOf(['specification', 'v1'], 'specification'),
  /** Takes the keys of ENCRYPT from a key management service instead of `svc.pii.crypto`. */
  'svc.pii.kms.enabled': flag(false),
  /** AWS KMS (install `@aws-sdk/client-kms`), or HashiCorp Vault and OpenBao. */
  'svc.pii.kms.type': oneOf(['aws', 'vault'], undefined, { registeredBy: 'registerKeyProvider' }),
  /** What becomes of events while their key cannot be had: `refuse`, or `hold` in memory until it can, as many as `svc.broker.buffer.max-events` and each for `svc.broker.delivery-timeout-ms`; later events wait behind them. Events of the outbox are refused, as their transaction cannot wait. */
  'svc.pii.kms.on-unavailable': oneOf(['refuse', 'hold'], 'refuse'),
  /** What the service calls each key, by the `keyId` of rules: `{ customer: arn:… }`. Of a list the first makes new keys. Default: the same name. */
  'svc.pii.kms.keys': { type: 'names' },
  /** Region of the keys. */
  'svc.pii.kms.aws.region': text('text', { defaultText: 'as the AWS SDK finds it' }),
  /** A VPC endpoint, or a test server. */
  'svc.pii.kms.aws.endpoint': text('url'),
  /** Key of rules without `keyId`: ARN, key id or `alias/…`. */
  'svc.pii.kms.aws.default-key-arn': text('text'),
  /** Bound to each data key and shown in CloudTrail; readers must give the same. Not secret. */
  'svc.pii.kms.aws.encryption-context': { type: 'names' },
  /** How long a key is used before it is replaced, in the background. */
  'svc.pii.kms.aws.dek-cache-ttl-ms': integer(1_000, 86_400_000, { unit: 'ms', default: 300_000 }),
  /** Keys that are kept; the oldest one goes first. */
  'svc.pii.kms.aws.dek-cache-max-size': integer(1, 10_000, { default: 100 }),
  /** Address of the server. `http:` only on loopback. */
  'svc.pii.kms.vault.address': text('url', { aliases: ['VAULT_ADDR'], default: 'https://127.0.0.1:8200' }),
  /** Token to read keys with. */
  'svc.pii.kms.vault.token': secret('token', { aliases: ['VAULT_TOKEN'] }),
  /** File that holds the token, read at each call: an agent may renew it. */
  'svc.pii.kms.vault.token-file': text('path'),
  /** Namespace of the server. */
  'svc.pii.kms.vault.namespace': text('text', { aliases: ['VAULT_NAMESPACE'] }),
  /** `kv` (as `kv-v2`) and `kv-v1`: a K/V store holds the keys. `transit`: the server makes data keys (envelope encryption). */
  'svc.pii.kms.vault.mode': oneOf(['kv', 'kv-v1', 'kv-v2', 'transit'], 'kv'),
  /** Where the engine is mounted. */
  'svc.pii.kms.vault.mount-path': text('text', { defaultText: '`secret`, for Transit `transit`' }),
  /** Key of rules without `keyId`: path of the secret below the mount, or name of the Transit key. */
  'svc.pii.kms.vault.default-key-path': text('text'),
  /** Field of the secret that holds the key: Base64 of 32 bytes. */
  'svc.pii.kms.vault.field': text('text', { default: 'key' }),
  /** PEM file of the authorities to trust. */
  'svc.pii.kms.vault.ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** How long a key is used before it is replaced, in the background. */
  'svc.pii.kms.vault.dek-cache-ttl-ms': integer(1_000, 86_400_000, { unit: 'ms', default: 300_000 }),
  /** Keys that are kept; the oldest one goes first. */
  'svc.pii.kms.vault.dek-cache-max-size': integer(1, 10_000, { default: 100 }),
} as const satisfies Rows;
