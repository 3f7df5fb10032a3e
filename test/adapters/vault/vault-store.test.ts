import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createVaultKeyProvider,
  type VaultKeyProviderOptions,
} from '../../../src/adapters/vault/vault-key-provider.ts';
import { codeOf, rejection } from '../../contract/key-provider.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { requiring } from '../../support/requires.ts';
import { startVault, type TestVault } from '../../support/vault.ts';

const refused = 'SVC_PROTECT_KEY_REFUSED';

requiring('vault', 'vault: keys in a K/V store', function () {
  this.timeout(30_000);
  let vault: TestVault;
  let mount: string;
  const key = randomBytes(32).toString('base64');
  before(async () => {
    vault = await startVault();
    mount = await vault.mount('kv-v2');
  });

  const get = (options: Partial<VaultKeyProviderOptions> = {}, keyId = 'customer'): Promise<Uint8Array> => {
    const token = options.tokenFile === undefined ? vault.token : undefined;
    const provider = createVaultKeyProvider({ address: vault.address, token, mount, ...options });
    assert.equal(provider.supportsEnvelopeEncryption, false);
    return provider.supportsEnvelopeEncryption ? Promise.reject() : provider.getKey(keyId);
  };
  const write = (path: string, data: object) => vault.call('POST', `${mount}/data/${path}`, { data });
  async function refusal(call: Promise<unknown>, says: RegExp): Promise<void> {
    const { code, message } = await rejection(call, [vault.token, key]);
    assert.equal(code, refused, message);
    assert.match(message, says);
  }

  it('finds a key by its path and field', async () => {
    await write('apps/orders/pii', { key: 'x', other: key });
    const options = { keys: { customer: 'apps/orders/pii' }, field: 'other' };
    assert.equal(Buffer.from(await get(options)).toString('base64'), key);
  });

  it('gives the current version: a rotated key is the new one', async () => {
    await write('rotated', { key });
    assert.equal(Buffer.from(await get({}, 'rotated')).toString('base64'), key);
    const next = randomBytes(32).toString('base64');
    await write('rotated', { key: next });
    assert.equal(Buffer.from(await get({}, 'rotated')).toString('base64'), next);
  });

  it('refuses a version that was deleted or destroyed, until a new one is written', async () => {
    await write('deleted', { key });
    await vault.call('DELETE', `${mount}/data/deleted`);
    await refusal(get({}, 'deleted'), /current version of .+\/data\/deleted is deleted/);
    await write('deleted', { key });
    assert.equal((await get({}, 'deleted')).length, 32);
    await vault.call('POST', `${mount}/destroy/deleted`, { versions: [2] });
    await refusal(get({}, 'deleted'), /is deleted/);
  });

  it('takes exactly 32 bytes in Base64', async () => {
    const cases: [object, RegExp][] = [
      [{ key: randomBytes(31).toString('base64') }, /it holds 31 bytes$/],
      [{ key: randomBytes(33).toString('base64') }, /it holds 33 bytes$/],
      [{ key: `${key}\n` }, /text that is not Base64$/],
      [{ key: key.slice(0, -1) }, /text that is not Base64$/],
      [{ key: `!${key.slice(1)}` }, /text that is not Base64$/],
      // The last character before the padding has bits that stand for nothing: only their being zero is one key, one text.
      [{ key: `${key.slice(0, 42)}B=` }, /text that is not Base64$/],
      [{ key: '' }, /it holds 0 bytes$/],
      [{ key: 12 }, /not text$/],
      [{ key: null }, /not text$/],
      [{ other: key }, /no such field$/],
      [{}, /no such field$/],
    ];
    for (const [data, says] of cases) {
      await write('shape', data);
      await refusal(get({}, 'shape'), says);
    }
    await write('shape', { key });
    assert.equal((await get({}, 'shape')).length, 32);
  });

  it('says which version of K/V, or which mount, is the wrong one', async () => {
    await write('customer', { key });
    await refusal(get({ engine: 'kv-v1' }), /is in a K\/V version 2 mount: the engine must be kv-v2/);
    const older = await vault.mount('kv-v1');
    await vault.call('POST', `${older}/customer`, { key });
    await refusal(get({ mount: older }), /no secret at .+ the engine must be kv-v1/);
    assert.equal((await get({ mount: older, engine: 'kv-v1' })).length, 32);
    await refusal(get({ mount: 'nowhere' }), /no engine is mounted for nowhere\/data\/customer/);
    await refusal(get({ mount: older, engine: 'kv-v1' }, 'none'), /there is no secret at .+\/none$/);
  });

  it('tells a bad token from a policy that forbids', async () => {
    await write('customer', { key });
    const allowed = `path "${mount}/data/customer" { capabilities = ["read"] }`;
    assert.equal((await get({ token: await vault.createToken(allowed) })).length, 32);
    const elsewhere = await vault.createToken(`path "${mount}/data/other" { capabilities = ["read"] }`);
    await refusal(get({ token: elsewhere }), /no policy of the token allows .+\/data\/customer$/);
    await refusal(get({ token: 'hvs.unknown' }), /the token is wrong, has expired/);
  });

  it('refuses a token that has expired', async () => {
    await write('customer', { key });
    const token = await vault.createToken(`path "${mount}/*" { capabilities = ["read"] }`, { ttl: '1s' });
    assert.equal((await get({ token })).length, 32);
    await sleep(1_500);
    await refusal(get({ token }), /the token is wrong, has expired/);
  });

  it('refuses an unknown namespace', async () => {
    await refusal(get({ namespace: 'no-such-team' }), /there is no such namespace/);
  });

  it('reads the token from its file each time', async () => {
    await write('customer', { key });
    const folder = temporaryFolder('vault');
    const tokenFile = join(folder, 'token');
    const provider = createVaultKeyProvider({ address: vault.address, tokenFile, mount });
    assert.ok(!provider.supportsEnvelopeEncryption);
    await refusal(provider.getKey('customer'), /cannot be read \(ENOENT\)/);
    await writeFile(tokenFile, ' \n');
    await refusal(provider.getKey('customer'), /the token is empty/);
    await writeFile(tokenFile, 'hvs.old');
    await refusal(provider.getKey('customer'), /wrong, has expired/);
    await writeFile(tokenFile, `${vault.token}\n`);
    assert.equal((await provider.getKey('customer')).length, 32);
    await writeFile(tokenFile, `${vault.token}\r\nX-Evil: 1`);
    await refusal(provider.getKey('customer'), /characters that HTTP headers do not allow/);
  });

  it('knows no key of the prototype', async () => {
    assert.equal(await codeOf(get({ keys: {} }, 'constructor')), refused);
  });
});
