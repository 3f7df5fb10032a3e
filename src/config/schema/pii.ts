import { flag, integer, oneOf, type Rows, secret, text } from './option.ts';

/** Protection of personal data: which fields, with which keys. */
export const piiOptions = {
  /** Protects values that rules here or `@PiiField` mark. If false, everything is published unprotected. */
  'svc.pii.enabled': flag(true),
  /** Rules for all payloads: `customer.email`, `items[*].phone`, `**.ssn` (at any depth). Each is a path, `path=TYPE:STRATEGY:LEVEL`, or `{ path, type, strategy, level, keyId, masker }`. */
  'svc.pii.fields': { type: 'rules', default: [] },
  /** `report` warns once per path about unmarked values that look like personal data (email, phone, card, IBAN). It costs time: use it in tests and staging. */
  'svc.pii.detect': oneOf(['off', 'report'], 'off'),
  /** Key for ENCRYPT: 32 bytes in Base64 (or 32 characters). Its id is `default`. */
  'svc.pii.crypto.default-key': secret('text', { aliases: ['PII_ENCRYPTION_KEY'] }),
  /** Keys for rotation: a list of `{ id, key, status }`. The key with status `primary` encrypts. Keys with `decrypt` no longer encrypt. */
  'svc.pii.crypto.keys': { type: 'keys', secret: true },
  /** Key for HASH: 16 random bytes or more. */
  'svc.pii.crypto.salt': secret('text', {
    aliases: ['PII_HASH_SALT'],
    defaultText: 'a public text, with a security warning; none in production',
  }),
  /** Refuses to start if a rule hashes and no salt is configured. */
  'svc.pii.crypto.require-salt': flag(undefined, { defaultText: '`true` where NODE_ENV is `production`' }),
  /** Layout of ciphertexts. Other languages can read `specification`. `v1` adds the key id, and opens only in the field it was written for. */
  'svc.pii.crypto.format': oneOf(['specification', 'v1'], 'specification'),
  /** Takes the keys for ENCRYPT from a key management service instead of `svc.pii.crypto`. */
  'svc.pii.kms.enabled': flag(false),
  /** `aws`: AWS KMS (install `@aws-sdk/client-kms`). `vault`: HashiCorp Vault or OpenBao. */
  'svc.pii.kms.type': oneOf(['aws', 'vault'], undefined, { registeredBy: 'registerKeyProvider' }),
  /** What happens to events while their key is unavailable. `refuse`, or `hold` in memory: at most `svc.broker.buffer.max-events`, each for `svc.broker.delivery-timeout-ms`, and later events wait behind them. Outbox events are always refused, because their transaction can't wait. */
  'svc.pii.kms.on-unavailable': oneOf(['refuse', 'hold'], 'refuse'),
  /** The service's name of each key, by the `keyId` of rules: `{ customer: arn:… }`. The first of a list makes new keys. Default: the same name. */
  'svc.pii.kms.keys': { type: 'names' },
  /** Region of the keys. */
  'svc.pii.kms.aws.region': text('text', { defaultText: 'as the AWS SDK finds it' }),
  /** VPC endpoint or test server. */
  'svc.pii.kms.aws.endpoint': text('url'),
  /** Key for rules without `keyId`: ARN, key id or `alias/…`. */
  'svc.pii.kms.aws.default-key-arn': text('text'),
  /** Context bound to each data key and shown in CloudTrail. Readers must send the same. Not secret. */
  'svc.pii.kms.aws.encryption-context': { type: 'names' },
  /** Lifetime of a key before svc replaces it in the background. */
  'svc.pii.kms.aws.dek-cache-ttl-ms': integer(1_000, 86_400_000, { unit: 'ms', default: 300_000 }),
  /** Keys in the cache. The oldest is dropped first. */
  'svc.pii.kms.aws.dek-cache-max-size': integer(1, 10_000, { default: 100 }),
  /** Address of the server. `http:` is allowed on loopback only. */
  'svc.pii.kms.vault.address': text('url', { aliases: ['VAULT_ADDR'], default: 'https://127.0.0.1:8200' }),
  /** Token for reading keys. */
  'svc.pii.kms.vault.token': secret('token', { aliases: ['VAULT_TOKEN'] }),
  /** File with the token. svc reads it at each call, so an agent can renew it. */
  'svc.pii.kms.vault.token-file': text('path'),
  /** Namespace of the server. */
  'svc.pii.kms.vault.namespace': text('text', { aliases: ['VAULT_NAMESPACE'] }),
  /** `kv` (the same as `kv-v2`) and `kv-v1`: a K/V store holds the keys. `transit`: the server makes data keys (envelope encryption). */
  'svc.pii.kms.vault.mode': oneOf(['kv', 'kv-v1', 'kv-v2', 'transit'], 'kv'),
  /** Path where the engine is mounted. */
  'svc.pii.kms.vault.mount-path': text('text', { defaultText: '`secret`, for Transit `transit`' }),
  /** Key for rules without `keyId`: path of the secret below the mount, or name of the Transit key. */
  'svc.pii.kms.vault.default-key-path': text('text'),
  /** Field of the secret that holds the key: 32 bytes in Base64. */
  'svc.pii.kms.vault.field': text('text', { default: 'key' }),
  /** PEM file of certificate authorities to trust. */
  'svc.pii.kms.vault.ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** Lifetime of a key before svc replaces it in the background. */
  'svc.pii.kms.vault.dek-cache-ttl-ms': integer(1_000, 86_400_000, { unit: 'ms', default: 300_000 }),
  /** Keys in the cache. The oldest is dropped first. */
  'svc.pii.kms.vault.dek-cache-max-size': integer(1, 10_000, { default: 100 }),
} as const satisfies Rows;
