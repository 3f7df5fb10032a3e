import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAwsKmsKeyProvider } from '../../src/adapters/aws-kms/aws-kms-key-provider.ts';
import { createVaultKeyProvider } from '../../src/adapters/vault/vault-key-provider.ts';
import type { Config } from '../../src/config/config.ts';
import { createDecryptionKeys, decryptFields } from '../../src/consumer.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import type { KeyProvider } from '../../src/protect/keys/key-provider.ts';
import { openProvider } from '../../src/start/adapters.ts';
import { codeOf, rejection } from '../contract/key-provider.ts';
import { useClock } from '../support/fake-time.ts';
import { temporaryFolder } from '../support/folders.ts';
import { type HttpFront, startHttpFront } from '../support/http-front.ts';
import { startKms } from '../support/kms.ts';
import { requiring } from '../support/requires.ts';
import { type OwnVault, startOwnVault } from '../support/vault.ts';

const opened: ReturnType<typeof createSealer>[] = [];
function sealerOf(provider: KeyProvider, options: Partial<Parameters<typeof createSealer>[0]> = {}) {
  const sealer = createSealer({ provider, defaultKeyId: 'customer', keyIds: [undefined], ...options });
  opened.push(sealer);
  return sealer;
}
afterEach(async () => {
  await Promise.all(opened.splice(0).map((sealer) => sealer.close()));
});

const only = ['emails'];
const field = { keyId: undefined, eventType: 'ORDER_PLACED', path: 'email' };
const envelope = (texts: readonly string[]) => ({
  eventType: 'ORDER_PLACED',
  payload: { emails: [...texts] },
});

requiring('kms', 'keys from AWS KMS', function () {
  this.timeout(30_000);
  let front: HttpFront;
  let open: () => KeyProvider;
  before(async () => {
    const kms = await startKms();
    front = await startHttpFront(kms.endpoint);
    const keys = { customer: await kms.createKey(), orders: await kms.createKey() };
    open = () => createAwsKmsKeyProvider({ endpoint: front.url, region: kms.region, keys });
  });
  after(() => front?.close());
  beforeEach(() => front.reset());

  it('are asked for once a key, whatever the load, and decrypted once by a consumer', async () => {
    const sealer = sealerOf(open(), { keyIds: [undefined, 'orders'] });
    await Promise.all(Array.from({ length: 20 }, () => sealer.ready()));
    const plain = Array.from({ length: 1_000 }, (_, index) => `user-${index}@example.com`);
    const sealed = plain.map((text, index) =>
      sealer.encrypt(text, { ...field, keyId: index % 2 === 0 ? undefined : 'orders' }),
    );
    assert.equal(front.count, 2);
    assert.ok(sealed.every((text) => text.startsWith('ENC(') && !text.includes('user-')));

    front.reset();
    const even = sealed.filter((_, index) => index % 2 === 0);
    const keys = createDecryptionKeys({ provider: open(), keyIds: ['customer'] });
    const { payload } = await decryptFields(envelope(even), keys, { only });
    assert.deepEqual(
      payload.emails,
      plain.filter((_, index) => index % 2 === 0),
    );
    assert.equal(front.count, 1);
  });

  it('are asked for once per TTL and key by a hundred writers and readers at once, over many TTLs', async () => {
    const ttlMs = 60_000;
    let nowMs = 0;
    useClock({ monotonic: () => nowMs });
    const cache = { ttlMs };
    const sealer = sealerOf(open(), { keyIds: [undefined, 'orders'], cache });
    const keys = createDecryptionKeys({ provider: open(), keyIds: ['customer', 'orders'], cache });
    await sealer.ready();
    assert.equal(front.count, 2);
    front.reset();
    const fields = [field, { ...field, keyId: 'orders' }];
    const isNew = (): boolean => sealer.keyStates().every(({ ageMs }) => ageMs === 0);
    let uses = 0;
    const write = async (): Promise<void> => {
      do {
        for (const each of fields) assert.match(sealer.encrypt('a@example.com', each), /^ENC\(/);
        uses += fields.length;
        await new Promise((resolve) => setImmediate(resolve));
      } while (!isNew());
      for (const each of fields) sealer.encrypt('a@example.com', each);
    };
    for (let ttl = 1; ttl <= 5; ttl++) {
      // The last moment of one key, which is asked for again only after it.
      nowMs += ttlMs;
      for (const each of fields) sealer.encrypt('a@example.com', each);
      assert.equal(front.count, 0);
      nowMs += 1;
      await Promise.all(Array.from({ length: 100 }, write));
      assert.equal(front.count, 2, 'one new data key each');

      front.reset();
      const sealed = sealer.encrypt('a@example.com', field);
      await Promise.all(Array.from({ length: 100 }, () => keys.open(sealed, field)));
      assert.equal(front.count, 1, 'one data key decrypted');
      front.reset();
    }
    assert.ok(uses > 5 * 200, `${uses} values encrypted`);
    await keys.close();
  });

  it('that do not come leave nothing in clear, and come by themselves', async () => {
    front.fail({ kind: 'reset' });
    const sealer = sealerOf(open());
    assert.equal(await codeOf(sealer.ready()), 'SVC_PROTECT_KEY_UNAVAILABLE');
    assert.throws(() => sealer.encrypt('a@example.com', field), { code: 'SVC_PROTECT_KEY_UNAVAILABLE' });
    front.reset();
    for (let tries = 0; tries < 100 && sealer.keyStates()[0]?.usable !== true; tries++) await sleep(50);
    assert.match(sealer.encrypt('a@example.com', field), /^ENC\([A-Za-z0-9+/]+=*\)$/);
  });
});

requiring('own-vault', 'keys from Vault', function () {
  this.timeout(30_000);
  let vault: OwnVault;
  before(async () => {
    vault = await startOwnVault();
  });
  after(() => vault?.stop());

  const open = (engine: 'kv-v2' | 'transit', mount: string): KeyProvider =>
    createVaultKeyProvider({ address: vault.address, token: vault.token, engine, mount });

  it('encrypt on while it is sealed, and are refused to whoever starts then', async () => {
    const mount = await vault.mount('transit');
    await vault.call('POST', `${mount}/keys/customer`, {});
    const running = sealerOf(open('transit', mount));
    await running.ready();
    await vault.seal();
    try {
      assert.match(running.encrypt('a@example.com', field), /^ENC\(/);
      const starting = sealerOf(open('transit', mount));
      const { code, message } = await rejection(starting.ready());
      assert.equal(code, 'SVC_PROTECT_KEY_UNAVAILABLE');
      assert.match(message, /it is sealed/);
      assert.throws(() => starting.encrypt('a@example.com', field), { code: 'SVC_PROTECT_KEY_UNAVAILABLE' });
    } finally {
      await vault.unseal();
    }
    await running.invalidateKeys();
    assert.match(running.encrypt('a@example.com', field), /^ENC\(/);
  });

  it('of Transit outlive a rotation, until min_decryption_version ends the old ones', async () => {
    const mount = await vault.mount('transit');
    await vault.call('POST', `${mount}/keys/customer`, {});
    const sealer = sealerOf(open('transit', mount));
    await sealer.ready();
    const older = sealer.encrypt('a@example.com', field);
    await vault.call('POST', `${mount}/keys/customer/rotate`, {});
    await sealer.invalidateKeys();
    const newer = sealer.encrypt('b@example.com', field);
    const keys = () => createDecryptionKeys({ provider: open('transit', mount), keyIds: ['customer'] });
    assert.deepEqual((await decryptFields(envelope([older, newer]), keys(), { only })).payload.emails, [
      'a@example.com',
      'b@example.com',
    ]);
    await vault.call('POST', `${mount}/keys/customer/config`, { min_decryption_version: 2 });
    assert.equal(
      (await decryptFields(envelope([newer]), keys(), { only })).payload.emails[0],
      'b@example.com',
    );
    assert.equal(await codeOf(decryptFields(envelope([older]), keys(), { only })), 'SVC_PROTECT_KEY_REFUSED');
  });

  it('are there within three seconds of a new token in its file, which nobody but the cache has asked for', async () => {
    const mount = await vault.mount('transit');
    await vault.call('POST', `${mount}/keys/customer`, {});
    const folder = temporaryFolder('token');
    const tokenFile = join(folder, 'token');
    writeFileSync(tokenFile, 'expired');
    const kms = {
      ...{ keys: { customer: 'customer' }, aws: {} },
      vault: { address: vault.address, tokenFile, mode: 'transit', mountPath: mount },
    };
    const sealer = sealerOf(openProvider(kms as unknown as Config['pii']['kms'], 'vault'));
    await assert.rejects(sealer.ready(), { code: 'SVC_PROTECT_KEY_REFUSED' });
    await sleep(1_500);
    writeFileSync(tokenFile, vault.token);
    const sinceMs = performance.now();
    const isUsable = (): boolean => sealer.keyStates().some(({ usable }) => usable);
    while (!isUsable()) {
      assert.ok(performance.now() - sinceMs < 3_000, 'no key within three seconds');
      await sleep(50);
    }
  });

  it('are there within three seconds where events are refused meanwhile', async () => {
    const mount = await vault.mount('transit');
    const sealer = sealerOf(open('transit', mount));
    await assert.rejects(sealer.ready(), { code: 'SVC_PROTECT_KEY_REFUSED' });
    assert.throws(() => sealer.encrypt('a@example.com', field));
    await vault.call('POST', `${mount}/keys/customer`, {});
    await sleep(3_000);
    assert.match(sealer.encrypt('a@example.com', field), /^ENC\(/);
  });

  it('of a K/V store are the same for whoever reads them', async () => {
    const mount = await vault.mount('kv-v2');
    const key = randomBytes(32).toString('base64');
    await vault.call('POST', `${mount}/data/customer`, { data: { key } });
    const sealer = sealerOf(open('kv-v2', mount));
    await sealer.ready();
    const sealed = envelope([sealer.encrypt('a@example.com', field)]);
    for (const keys of [
      createDecryptionKeys({ provider: open('kv-v2', mount), keyIds: ['customer'] }),
      createDecryptionKeys({ keys: [{ id: 'any', key }] }),
    ])
      assert.deepEqual((await decryptFields(sealed, keys, { only })).payload.emails, ['a@example.com']);
  });
});
