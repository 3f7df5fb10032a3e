import { randomBytes } from 'node:crypto';
import {
  createVaultKeyProvider,
  type VaultKeyProviderOptions,
} from '../../src/adapters/vault/vault-key-provider.ts';
import { requiring } from '../support/requires.ts';
import { startVault, type TestVault } from '../support/vault.ts';
import { type KeyProviderUnderTest, testKeyProvider } from './key-provider.ts';

async function makeKeys(
  vault: TestVault,
  engine: NonNullable<VaultKeyProviderOptions['engine']>,
  names: readonly string[],
): Promise<string> {
  const mount = await vault.mount(engine);
  for (const name of names) {
    const key = randomBytes(32).toString('base64');
    if (engine === 'transit') await vault.call('POST', `${mount}/keys/${name}`, {});
    if (engine === 'kv-v1') await vault.call('POST', `${mount}/${name}`, { key });
    if (engine === 'kv-v2') await vault.call('POST', `${mount}/data/${name}`, { data: { key } });
  }
  return mount;
}

for (const [engine, tls] of [
  ['kv-v1', false],
  ['kv-v2', false],
  ['transit', false],
  ['transit', true],
] as const) {
  const needs = tls ? 'own-vault' : 'vault';
  requiring(needs, `key provider contract: vault ${engine}${tls ? ' over TLS' : ''}`, function () {
    this.timeout(60_000);
    let vault: TestVault;
    let mount: string;
    before(async () => {
      vault = await startVault({ tls });
      mount = await makeKeys(vault, engine, ['customer', 'orders_2-b']);
    });

    testKeyProvider(engine === 'transit' ? 'envelope' : 'static', (): KeyProviderUnderTest => {
      const { address, token } = vault;
      const caFile = vault.caFile ?? undefined;
      const unreachable = tls ? 'https://127.0.0.1:1' : 'http://127.0.0.1:1';
      return {
        open: () => createVaultKeyProvider({ address, token, caFile, engine, mount }),
        openUnreachable: () => createVaultKeyProvider({ address: unreachable, token, caFile, engine, mount }),
        keyIds: ['customer', 'orders_2-b'],
        unknownKeyId: 'unknown',
        secrets: [token],
      };
    });
  });
}
