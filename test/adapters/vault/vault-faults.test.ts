import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  createVaultKeyProvider,
  type VaultKeyProviderOptions,
} from '../../../src/adapters/vault/vault-key-provider.ts';
import type { StaticKeyProvider } from '../../../src/protect/keys/key-provider.ts';
import { rejection } from '../../contract/key-provider.ts';
import { type Fault, type HttpFront, startHttpFront } from '../../support/http-front.ts';
import { requiring } from '../../support/requires.ts';
import { type OwnVault, startOwnVault } from '../../support/vault.ts';

const refused = 'SVC_PROTECT_KEY_REFUSED';
const unavailable = 'SVC_PROTECT_KEY_UNAVAILABLE';
const key = randomBytes(32).toString('base64');

function storeOf(vault: OwnVault, options: Partial<VaultKeyProviderOptions> = {}): StaticKeyProvider {
  const { address, token } = vault;
  return createVaultKeyProvider({ address, token, timeoutMs: 2_000, ...options }) as StaticKeyProvider;
}

requiring('own-vault', 'vault, not well', function () {
  this.timeout(30_000);
  let vault: OwnVault;
  let front: HttpFront;
  before(async () => {
    vault = await startOwnVault();
    await vault.call('POST', 'secret/data/customer', { data: { key } });
    front = await startHttpFront(vault.address);
  });
  after(async () => {
    await front?.close();
    await vault?.stop();
  });
  beforeEach(() => front.reset());

  const failure = (call: Promise<unknown>) => rejection(call, [vault.token, key, 'SECRET-TEXT']);
  const behind = (fault: Fault, options: Partial<VaultKeyProviderOptions> = {}) => {
    front.fail(fault);
    return failure(storeOf(vault, { address: front.url, ...options }).getKey('customer'));
  };
  const answer = (status: number, body: string, headers = {}): Fault => ({
    kind: 'answer',
    status,
    body,
    headers,
  });

  it('is unavailable while it is sealed, and gives the key again when it is not', async () => {
    const provider = storeOf(vault);
    assert.equal(Buffer.from(await provider.getKey('customer')).toString('base64'), key);
    await vault.seal();
    const { code, message } = await failure(provider.getKey('customer'));
    assert.equal(code, unavailable);
    assert.match(message, /it is sealed/);
    await vault.unseal();
    assert.equal(Buffer.from(await provider.getKey('customer')).toString('base64'), key);
  });

  it('is unavailable while it hangs, and the call ends in time', async () => {
    await vault.pause();
    try {
      const started = performance.now();
      const { code, message } = await failure(storeOf(vault, { timeoutMs: 300 }).getKey('customer'));
      assert.equal(code, unavailable);
      assert.match(message, /not answer in time/);
      assert.ok(performance.now() - started < 2_000);
    } finally {
      vault.resume();
    }
    assert.equal((await storeOf(vault).getKey('customer')).length, 32);
  });

  it('is unavailable when an answer stops in the middle, or the connection does', async () => {
    assert.equal((await behind({ kind: 'stall' }, { timeoutMs: 300 })).code, unavailable);
    const { code, message } = await behind({ kind: 'reset' });
    assert.equal(code, unavailable);
    assert.match(message, /cannot be reached \(ECONNRESET\)/);
  });

  it('is asked once, whatever it answers, and its text is not told', async () => {
    const cases: [number, string, string, RegExp][] = [
      [429, '{"errors":["SECRET-TEXT"]}', unavailable, /status 429$/],
      [473, '{}', unavailable, /status 473$/],
      [500, '{"errors":["SECRET-TEXT"]}', unavailable, /status 500$/],
      [502, '<html>SECRET-TEXT</html>', unavailable, /status 502$/],
      [503, '', unavailable, /status 503$/],
      [400, '{"errors":["SECRET-TEXT"]}', refused, /rejected the request/],
      [403, '<html>SECRET-TEXT</html>', refused, /permission denied/],
      [
        403,
        '{"errors":["2 errors occurred:\\n\\t* permission denied\\n\\t* invalid token\\n\\n"]}',
        refused,
        /expired/,
      ],
      [404, '[]', refused, /no secret/],
      [405, '{"errors":["unsupported operation"]}', refused, /cannot be asked/],
      [418, 'null', unavailable, /status 418$/],
      [204, '', unavailable, /status 204$/],
      [200, '<html>SECRET-TEXT</html>', unavailable, /not JSON/],
      [200, '', refused, /no such field/],
      [200, '{"data":{"data":null}}', refused, /no such field/],
      [200, '{"data":{"data":{"key":"SECRET-TEXT"}}}', refused, /not Base64/],
    ];
    for (const [status, body, code, says] of cases) {
      const found = await behind(answer(status, body));
      assert.deepEqual([found.code, front.count], [code, 1], `${status} ${body}`);
      assert.match(found.message, says);
    }
  });

  it('follows no redirect', async () => {
    const location = `${vault.address}/v1/secret/data/customer`;
    for (const [status, code, says] of [
      [301, refused, /a redirect \(301\), which svc does not follow/],
      [308, refused, /a redirect \(308\)/],
      [307, unavailable, /a standby \(307\)/],
    ] as const) {
      const found = await behind(answer(status, '', { location }));
      assert.deepEqual([found.code, front.count], [code, 1]);
      assert.match(found.message, says);
    }
  });

  it('takes an answer of 64 KiB, and no more', async () => {
    const body = (bytes: number): string => {
      const start = `{"data":{"data":{"key":"${key}"}},"rest":"`;
      return `${start}${'x'.repeat(bytes - start.length - 2)}"}`;
    };
    front.fail(answer(200, body(65_536)));
    assert.equal((await storeOf(vault, { address: front.url }).getKey('customer')).length, 32);
    const { code, message } = await behind(answer(200, body(65_537)));
    assert.equal(code, unavailable);
    assert.match(message, /too large/);
  });

  it('is asked with the token and the namespace, below the path of the address', async () => {
    await behind(answer(500, '{}'), { address: `${front.url}/base/`, namespace: 'team/a' });
    assert.equal(front.last?.url, '/base/v1/secret/data/customer');
    const {
      'x-vault-token': token,
      'x-vault-namespace': namespace,
      'x-vault-request': mark,
    } = front.last.headers;
    assert.deepEqual([token, namespace, mark], [vault.token, 'team/a', 'true']);
  });
});

requiring('own-vault', 'vault over TLS', function () {
  this.timeout(30_000);
  let vault: OwnVault;
  before(async () => {
    vault = await startOwnVault({ tls: true });
    await vault.call('POST', 'secret/data/customer', { data: { key } });
  });
  after(() => vault?.stop());

  it('is trusted by the authority of ca-file alone', async () => {
    const caFile = vault.caFile ?? undefined;
    assert.equal((await storeOf(vault, { caFile }).getKey('customer')).length, 32);
    const { code, message } = await rejection(storeOf(vault).getKey('customer'), [vault.token, key]);
    assert.equal(code, refused);
    assert.match(message, /its certificate is not trusted \(\w+\): add its authority to/);
  });

  it('says when the authority cannot be read, and when it is spoken to without TLS', async () => {
    const missing = await rejection(storeOf(vault, { caFile: '/nonexistent/ca.pem' }).getKey('customer'));
    assert.equal(missing.code, refused);
    assert.match(missing.message, /of authorities cannot be read \(ENOENT\)/);
    const plain = await rejection(
      storeOf(vault, { address: vault.address.replace('https', 'http') }).getKey('customer'),
      [vault.token],
    );
    assert.equal(plain.code, refused);
    assert.match(plain.message, /rejected the request/);
  });
});
