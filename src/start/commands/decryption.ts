import type { Config } from '../../config/config.ts';
import { createDecryptionKeys, type DecryptionKeys } from '../../consumer/decryption-keys.ts';
import { SvcError } from '../../ground/errors.ts';
import { parseRulePath } from '../../ground/pii-rule.ts';
import { type ConfiguredKey, defaultKeyId } from '../../protect/keys/key-ring.ts';
import { configuredKeys, openProvider } from '../keys.ts';

export interface DecryptionRequest {
  /** `undefined`: none is used. */
  readonly config: Config | undefined;
  /** Keys beside those of the configuration, which they go before where ids are the same. */
  readonly keys: readonly ConfiguredKey[];
  /** As in `PII_ENCRYPTION_KEY`: the key with the id `default`. Part of the configuration where there is one. */
  readonly defaultKey: string | undefined;
  /** Ids to ask a key service for, beside those that the configuration names. */
  readonly keyIds: readonly string[];
}

/** Everything that can open ciphertexts, as one command needs it. Throws what is wrong with the keys. */
export function openDecryption({ config, keys, defaultKey, keyIds }: DecryptionRequest): DecryptionKeys {
  const ofConfig = config === undefined ? ofEnvironment(defaultKey) : configuredKeys(config.pii.crypto);
  const own = new Set(keys.map(({ id }) => id));
  // For reading, no key is the primary one.
  const all = [...keys, ...ofConfig.filter(({ id }) => !own.has(id))].map(({ id, key }) => ({ id, key }));
  const kms = config?.pii.kms;
  if (config === undefined || kms?.enabled !== true || kms.type === undefined) {
    if (keyIds.length > 0)
      throw new SvcError(
        'SVC_PROTECT_KEY_LIST',
        '--key-id is for keys of a service, and the configuration has none (svc.pii.kms)',
      );
    return createDecryptionKeys({ keys: all });
  }
  const ids = [...new Set([...namedKeyIds(config), ...keyIds])];
  if (ids.length === 0)
    throw new SvcError(
      'SVC_PROTECT_KEY_LIST',
      'no key of the key service is named: set svc.pii.kms.keys, or give --key-id',
    );
  return createDecryptionKeys({ keys: all, provider: openProvider(kms, kms.type), keyIds: ids });
}

function ofEnvironment(key: string | undefined): ConfiguredKey[] {
  return key === undefined ? [] : [{ id: defaultKeyId, key }];
}

/** Keys that rules encrypt with, and those that the configuration has names for: marks of classes can use them. */
export function namedKeyIds({ pii, targets }: Config): string[] {
  const { keys, aws, vault, type } = pii.kms;
  const hasDefault = type === 'aws' ? aws.defaultKeyArn : vault.defaultKeyPath;
  const rules = [...pii.fields, ...targets.flatMap((target) => target.pii ?? [])];
  return [
    ...(hasDefault === undefined ? [] : [defaultKeyId]),
    ...Object.keys(keys ?? {}),
    ...rules.filter(({ strategy }) => strategy === 'ENCRYPT').map(({ keyId }) => keyId ?? defaultKeyId),
  ];
}

/** Where rules of the configuration encrypt; marks of classes and rules in code it does not know. */
export function encryptedFields({ pii, targets }: Config): readonly string[] {
  const rules = [...pii.fields, ...targets.flatMap((target) => target.pii ?? [])];
  const paths = rules.filter(({ strategy }) => strategy === 'ENCRYPT').map(({ path }) => path);
  return [...paths, ...paths.map(underValue).filter((path) => typeof parseRulePath(path) !== 'string')];
}

/** A payload that is no object is published as `{ "value": … }`. */
function underValue(path: string): string {
  const bare = path.replace(/^\$(\.|(?=\[))/, '');
  return bare.startsWith('[') ? `value${bare}` : `value.${bare}`;
}
