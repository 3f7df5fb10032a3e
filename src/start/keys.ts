import fs from 'node:fs';
import type { Names } from '../config/check/problem.ts';
import type { Config } from '../config/config.ts';
import { readKeyText } from '../ground/event-fields.ts';
import type { EnvelopeKeyProvider, KeyProvider, StaticKeyProvider } from '../protect/keys/key-provider.ts';
import { type ConfiguredKey, defaultKeyId } from '../protect/keys/key-ring.ts';
import { ownKeyProvider } from '../protect/own-key-provider.ts';
import { openKeyProvider } from './adapters.ts';

/** The keys of `svc.pii.crypto`. */
export function configuredKeys({
  defaultKey,
  keys,
}: Config['pii']['crypto']): (ConfiguredKey & { readonly key: Buffer })[] {
  const others = keys.map(({ id, key, status }) => ({ id, key: readKeyText(key).bytes, status }));
  if (defaultKey === undefined) return others;
  const hasPrimary = keys.some(({ status }) => status === 'primary');
  const status = hasPrimary ? undefined : 'primary';
  return [{ id: defaultKeyId, key: readKeyText(defaultKey).bytes, status }, ...others];
}

type KmsConfig = Config['pii']['kms'];

/** The key service of `svc.pii.kms`, loaded at its first use, or what the application has registered. What cannot work with these settings is an error of every call. */
export function openProvider({ keys, aws, vault }: KmsConfig, type: string): KeyProvider {
  if (type !== 'aws' && type !== 'vault') return ownKeyProvider(type);
  const defaultKey = type === 'aws' ? aws.defaultKeyArn : vault.defaultKeyPath;
  const named: Names = defaultKey === undefined ? { ...keys } : { [defaultKeyId]: [defaultKey], ...keys };
  const engine = vault.mode === 'kv' ? 'kv-v2' : vault.mode;
  const settings =
    type === 'aws'
      ? {
          keys: named,
          region: aws.region,
          endpoint: aws.endpoint,
          encryptionContext: single(aws.encryptionContext),
        }
      : { ...vault, keys: named, engine, mount: vault.mountPath };
  let opening: Promise<KeyProvider> | undefined;
  const open = <P extends KeyProvider>(): Promise<P> => {
    opening ??= openKeyProvider(type, settings);
    return opening as Promise<P>;
  };
  const { tokenFile } = vault;
  const watch =
    type === 'vault' && tokenFile !== undefined
      ? (onChange: () => void) => watchFile(tokenFile, onChange)
      : undefined;
  const close = async () => (await opening?.catch(() => undefined))?.close?.();
  if (type === 'vault' && engine !== 'transit') {
    return {
      name: `vault-${engine}`,
      supportsEnvelopeEncryption: false,
      getKey: async (keyId) => (await open<StaticKeyProvider>()).getKey(keyId),
      ...(watch && { watch }),
      close,
    };
  }
  return {
    name: type === 'aws' ? 'aws-kms' : 'vault-transit',
    supportsEnvelopeEncryption: true,
    generateDataKey: async (keyId) => (await open<EnvelopeKeyProvider>()).generateDataKey(keyId),
    decryptDataKey: async (keyId, key) => (await open<EnvelopeKeyProvider>()).decryptDataKey(keyId, key),
    ...(watch && { watch }),
    close,
  };
}

/** By looking once a second: links that Kubernetes swaps, and files that are not there yet, are seen as well. */
function watchFile(file: string, onChange: () => void): () => void {
  fs.watchFile(file, { interval: 1_000, persistent: false }, onChange);
  return () => fs.unwatchFile(file, onChange);
}

function single(names: Names | undefined): Record<string, string> | undefined {
  return names && Object.fromEntries(Object.entries(names).map(([name, [text = '']]) => [name, text]));
}
