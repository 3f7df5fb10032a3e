import assert from 'node:assert/strict';
import {
  createVaultKeyProvider,
  type VaultKeyProviderOptions,
} from '../../../src/adapters/vault/vault-key-provider.ts';
import type { StaticKeyProvider } from '../../../src/protect/keys/key-provider.ts';
import { codeOf } from '../../contract/key-provider.ts';

const token = 'hvs.CAESI-a-token';
const create = (options: Partial<VaultKeyProviderOptions>) =>
  createVaultKeyProvider({ address: 'https://vault.test:8200', token, ...options });
const refuses = (
  options: Partial<VaultKeyProviderOptions>,
  message: RegExp,
  code = 'SVC_PROTECT_KEY_REFUSED',
) =>
  assert.throws(
    () => create(options),
    (error: Error & { code: string }) => {
      assert.equal(error.code, code);
      assert.match(error.message, message);
      assert.ok(!error.message.includes(token) && !error.message.includes('sesame'));
      return true;
    },
  );

describe('vault options', () => {
  it('take http on loopback only', () => {
    for (const address of [
      ...['http://127.0.0.1:8200', 'http://127.255.255.254', 'http://localhost:8200', 'http://[::1]:8200'],
      ...['https://vault.test', 'https://10.0.0.1:8200/', 'https://proxy.test/vault/', undefined],
    ])
      assert.ok(create({ address }), address);
    for (const address of [
      ...['http://vault.test:8200', 'http://10.0.0.1', 'http://126.255.255.255', 'http://128.0.0.1'],
      ...['http://0.0.0.0:8200', 'http://[::2]', 'http://localhost.test', 'http://127.0.0.1.test'],
    ])
      refuses({ address }, /must begin with https:\/\//);
  });

  it('take no address with more in it than a place', () => {
    for (const address of [
      'https://user:sesame@vault.test',
      'https://vault.test?sesame=1',
      'https://vault.test#sesame',
    ])
      refuses({ address }, /no user, password, query or fragment/);
    for (const address of ['vault.test:8200', '', 'ftp://vault.test', 'file:///etc/passwd'])
      refuses({ address }, /must be a URL/);
  });

  it('need one token', () => {
    refuses({ token: undefined }, /a token or a token file/);
    refuses({ tokenFile: '/run/token' }, /either a token or a token file/);
    assert.ok(create({ token: undefined, tokenFile: '/run/token' }));
  });

  it('take paths of letters, digits, underscores and hyphens', () => {
    assert.ok(
      create({ mount: 'team/kv_2-b', keys: { customer: 'apps/orders-1/pii_key' }, namespace: 'a.b/c/' }),
    );
    for (const path of ['../up', 'a//b', '/a', 'a/', 'a.b', 'a b', 'a?x', 'a%2fb', 'a\nb', 'ä', '']) {
      refuses({ mount: path }, /mount/);
      refuses({ keys: { customer: path } }, /^Invalid key id: /, 'SVC_PROTECT_KEY_ID');
    }
    for (const namespace of ['a b', '/a', 'a\r\nX-Evil: 1', '']) refuses({ namespace }, /namespace/);
    refuses({ keys: { customer: ['a', 'b'] } }, /more than one path/);
    refuses({ engine: 'kv' as never }, /one of kv-v1, kv-v2, transit/);
  });

  it('lead to no path outside the mount, whatever the name: Invalid key id', async () => {
    const provider = create({ address: 'http://127.0.0.1:1' }) as StaticKeyProvider;
    for (const keyId of ['../sys/raw', 'a/b', 'a b', 'a%2fb', 'a.b', '', 'ä', 'a\n', 'a'.repeat(129)])
      assert.equal(await codeOf(provider.getKey(keyId)), 'SVC_PROTECT_KEY_ID', JSON.stringify(keyId));
    for (const keyId of ['a', 'A_z-9', '__proto__', 'a'.repeat(128)])
      assert.equal(await codeOf(provider.getKey(keyId)), 'SVC_PROTECT_KEY_UNAVAILABLE', keyId);
  });
});
