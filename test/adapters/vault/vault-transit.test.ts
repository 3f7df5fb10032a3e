import assert from 'node:assert/strict';
import {
  createVaultKeyProvider,
  type VaultKeyProviderOptions,
} from '../../../src/adapters/vault/vault-key-provider.ts';
import type { EnvelopeKeyProvider } from '../../../src/protect/keys/key-provider.ts';
import { rejection } from '../../contract/key-provider.ts';
import { requiring } from '../../support/requires.ts';
import { startVault, type TestVault } from '../../support/vault.ts';

requiring('vault', 'vault: data keys by Transit', function () {
  this.timeout(30_000);
  let vault: TestVault;
  let mount: string;
  before(async () => {
    vault = await startVault();
    mount = await vault.mount('transit');
  });

  const open = (options: Partial<VaultKeyProviderOptions> = {}): EnvelopeKeyProvider => {
    const base = { address: vault.address, token: vault.token, engine: 'transit', mount } as const;
    return createVaultKeyProvider({ ...base, ...options }) as EnvelopeKeyProvider;
  };
  async function refusal(call: Promise<unknown>, code: string, says: RegExp): Promise<void> {
    const found = await rejection(call, [vault.token]);
    assert.equal(found.code, code, found.message);
    assert.match(found.message, says);
  }

  it('keeps decrypting after a rotation, until its key says otherwise', async () => {
    await vault.call('POST', `${mount}/keys/rotated`, {});
    const provider = open({ keys: { customer: 'rotated' } });
    const before = await provider.generateDataKey('customer');
    assert.match(Buffer.from(before.encryptedKey).toString(), /^vault:v1:/);
    await vault.call('POST', `${mount}/keys/rotated/rotate`, {});
    const after = await provider.generateDataKey('customer');
    assert.match(Buffer.from(after.encryptedKey).toString(), /^vault:v2:/);
    assert.deepEqual(await provider.decryptDataKey('customer', before.encryptedKey), before.plaintext);

    await vault.call('POST', `${mount}/keys/rotated/config`, { min_decryption_version: 2 });
    const old = provider.decryptDataKey('customer', before.encryptedKey);
    await refusal(old, 'SVC_PROTECT_KEY_REFUSED', /older than the min_decryption_version/);
    assert.deepEqual(await provider.decryptDataKey('customer', after.encryptedKey), after.plaintext);
  });

  it('needs a key for encryption', async () => {
    await vault.call('POST', `${mount}/keys/signing`, { type: 'ed25519' });
    await refusal(open().generateDataKey('signing'), 'SVC_PROTECT_KEY_REFUSED', /not for encryption/);
  });

  it('lets a consumer decrypt that may not make keys', async () => {
    await vault.call('POST', `${mount}/keys/shared`, {});
    const made = await open().generateDataKey('shared');
    const token = await vault.createToken(`path "${mount}/decrypt/shared" { capabilities = ["update"] }`);
    assert.deepEqual(await open({ token }).decryptDataKey('shared', made.encryptedKey), made.plaintext);
    await refusal(
      open({ token }).generateDataKey('shared'),
      'SVC_PROTECT_KEY_REFUSED',
      /no policy of the token/,
    );
  });

  it('names the mount where no Transit engine is', async () => {
    const provider = open({ mount: 'nowhere' });
    await refusal(
      provider.generateDataKey('customer'),
      'SVC_PROTECT_KEY_REFUSED',
      /no engine is mounted for nowhere/,
    );
    const store = open({ mount: await vault.mount('kv-v2') });
    await refusal(store.generateDataKey('customer'), 'SVC_PROTECT_KEY_REFUSED', /^Vault at [^ ]+: \S/);
  });
});
