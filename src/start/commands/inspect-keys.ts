import type { Config } from '../../config/config.ts';
import { isolate } from '../../observe/isolate.ts';
import { toProviderError } from '../../protect/keys/key-provider.ts';
import { openProvider } from '../keys.ts';
import { namedKeyIds } from './decryption.ts';

/** What the key service says to the keys that the configuration names. */
export interface KeysReport {
  readonly provider: string;
  readonly keys: readonly { readonly id: string /** One line. */; readonly problem?: string }[];
}

/**
 * Asks for each key as an event would, and keeps none. `undefined`: there is no service, or one that only the application has
 * registered. Never rejects.
 */
export async function inspectKeys(config: Config): Promise<KeysReport | undefined> {
  const { kms } = config.pii;
  if (!kms.enabled || (kms.type !== 'aws' && kms.type !== 'vault')) return undefined;
  const provider = openProvider(kms, kms.type);
  const ask = async (id: string): Promise<KeysReport['keys'][number]> => {
    try {
      const made = await isolate(async () =>
        provider.supportsEnvelopeEncryption
          ? (await provider.generateDataKey(id)).plaintext
          : provider.getKey(id),
      );
      made.fill(0);
      return { id };
    } catch (error) {
      return { id, problem: toProviderError(error, provider.name).message };
    }
  };
  const keys = await Promise.all([...new Set(namedKeyIds(config))].map(ask));
  await provider.close?.();
  return { provider: provider.name, keys };
}
