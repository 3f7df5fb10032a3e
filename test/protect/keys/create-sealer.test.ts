import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import sinon from 'sinon';
import { createSealer } from '../../../src/protect/keys/create-sealer.ts';
import { fakeKeyService, unavailable } from '../fake-key-service.ts';

const key = () => randomBytes(32).toString('base64');
const field = (keyId?: string) => ({ keyId, eventType: 'ORDER', path: 'customer.email' });
const secret = 'jonathan@example.com';

describe('sealer', () => {
  const opened: ReturnType<typeof createSealer>[] = [];
  const open = (options: Parameters<typeof createSealer>[0]) => {
    const sealer = createSealer(options);
    opened.push(sealer);
    return sealer;
  };
  afterEach(async () => {
    for (const sealer of opened.splice(0)) await sealer.close();
    sinon.restore();
  });

  it('encrypts the same value differently each time, and hashes it to the same text', () => {
    const sealer = open({ keys: [{ id: 'k1', key: key() }], salt: 'a salt of 16 bytes' });
    const texts = new Set(Array.from({ length: 1_000 }, () => sealer.encrypt(secret, field())));
    assert.equal(texts.size, 1_000);
    for (const text of texts) assert.match(text, /^ENC\([A-Za-z0-9+/=]{64}\)$/);
    assert.match(sealer.hash(secret), /^HASH\([A-Za-z0-9+/]{43}=\)$/);
    assert.equal(sealer.hash(secret), sealer.hash(secret));
  });

  it('names the key in format v1: the primary one, or the one of the rule', () => {
    const keys = [
      { id: 'new', key: key(), status: 'primary' as const },
      { id: 'cards', key: key() },
      { id: 'old', key: key(), status: 'decrypt' as const },
    ];
    const sealer = open({ keys, format: 'v1' });
    assert.match(sealer.encrypt(secret, field()), /^ENC\(v1:new:/);
    assert.match(sealer.encrypt(secret, field('cards')), /^ENC\(v1:cards:/);
    assert.throws(() => sealer.encrypt(secret, field('old')), { code: 'SVC_PROTECT_KEY_UNKNOWN' });
  });

  it('tells health of each key without asking for it', async () => {
    const keys = [
      { id: 'new', key: key(), status: 'primary' as const },
      { id: 'old', key: key(), status: 'decrypt' as const },
    ];
    const configured = open({ keys });
    const provider = 'configuration';
    assert.deepEqual(configured.keyState(undefined), {
      provider,
      keyId: 'new',
      usable: true,
      error: undefined,
    });
    assert.match(configured.keyState('old').error ?? '', /for decryption only/);
    assert.deepEqual(
      [open({}).keyState(undefined)].map(({ keyId, usable, error }) => [keyId, usable, error?.slice(0, 32)]),
      [['default', false, 'PII encryption key is not config']],
    );

    const service = fakeKeyService();
    const sealer = open({ provider: service, defaultKeyId: 'customer', keyIds: [undefined] });
    const state = () => sealer.keyState(undefined);
    assert.deepEqual(state(), {
      provider: 'fake',
      keyId: 'customer',
      usable: false,
      error: 'it has not been fetched yet',
    });
    assert.equal(service.generated.length, 0);
    service.failure = unavailable();
    await assert.rejects(sealer.ready());
    assert.deepEqual([state().usable, state().error], [false, 'fake: cannot be reached']);
    service.failure = undefined;
    await sealer.invalidateKeys();
    await sealer.ready().catch(() => {});
    assert.equal(service.generated.length, 1, 'not before it is due');
  });

  it('never falls back to the default key for an unknown id', () => {
    const sealer = open({ keys: [{ id: 'k1', key: key() }] });
    assert.throws(() => sealer.encrypt(secret, field('k2')), { code: 'SVC_PROTECT_KEY_UNKNOWN' });
  });

  it('says at once what is wrong with the keys and the salt', () => {
    assert.throws(() => open({ keys: [{ id: 'k', key: 'c2hvcnQ=' }] }), { name: 'IllegalArgumentException' });
    assert.throws(() => open({ salt: '' }), { code: 'SVC_PROTECT_NO_SALT' });
    assert.throws(() => open({ provider: fakeKeyService(), defaultKeyId: 'a/b' }), {
      code: 'SVC_PROTECT_KEY_ID',
    });
    assert.throws(() => open({ provider: fakeKeyService(), keyIds: ['a/b'] }), {
      code: 'SVC_PROTECT_KEY_ID',
    });
    assert.throws(() => open({ provider: fakeKeyService(), keys: [{ id: 'k', key: key() }] }), {
      code: 'SVC_PROTECT_KEY_LIST',
    });
  });

  it('says what is missing when ready is asked, and for each value', async () => {
    const sealer = open({ keyIds: [undefined] });
    const noKey = { code: 'SVC_PROTECT_NO_KEY', message: /^PII encryption key is not configured/ };
    await assert.rejects(sealer.ready(), noKey);
    assert.throws(() => sealer.encrypt(secret, field()), noKey);
    assert.throws(() => sealer.hash(secret), { code: 'SVC_PROTECT_NO_SALT' });
    await assert.rejects(open({ keys: [{ id: 'a', key: key() }], keyIds: ['b'] }).ready(), {
      code: 'SVC_PROTECT_KEY_UNKNOWN',
    });
    const provided = open({ provider: fakeKeyService(), keyIds: [undefined] });
    await assert.rejects(provided.ready(), noKey);
    await assert.doesNotReject(open({ keys: [{ id: 'a', key: key() }], keyIds: ['a', undefined] }).ready());
    await assert.doesNotReject(open({}).ready());
  });

  it('fetches every key that rules name, once, and then encrypts synchronously', async () => {
    const service = fakeKeyService();
    const sealer = open({
      provider: service,
      defaultKeyId: 'main',
      keyIds: [undefined, 'cards', undefined, 'cards'],
    });
    assert.throws(() => sealer.encrypt(secret, field()), { code: 'SVC_PROTECT_KEY_UNAVAILABLE' });
    await sealer.ready();
    for (let count = 0; count < 10_000; count++)
      sealer.encrypt(secret, field(count % 2 ? 'cards' : undefined));
    assert.deepEqual(service.generated.sort(), ['cards', 'main']);
    assert.deepEqual(
      sealer.keyStates().map(({ keyId, usable }) => [keyId, usable]),
      [
        ['main', true],
        ['cards', true],
      ],
    );
  });

  it('keeps all keys that rules name, however small the cache is said to be', async () => {
    const keyIds = Array.from({ length: 5 }, (_, index) => `k${index}`);
    const service = fakeKeyService();
    const sealer = open({ provider: service, keyIds, cache: { maxEntries: 2 } });
    await sealer.ready();
    for (const keyId of keyIds) sealer.encrypt(secret, field(keyId));
    assert.equal(service.generated.length, 5);
  });

  it('refuses while the key service is away, becomes ready by itself, and shows no value', async () => {
    const time = sinon.useFakeTimers();
    const service = fakeKeyService();
    service.failure = unavailable();
    const sealer = open({ provider: service, defaultKeyId: 'main', keyIds: [undefined] });
    await assert.rejects(sealer.ready(), { code: 'SVC_PROTECT_KEY_UNAVAILABLE' });
    assert.throws(
      () => sealer.encrypt(secret, field()),
      (error: Error) => error.name === 'KeyProviderException' && !inspect(error).includes('jonathan'),
    );
    service.failure = undefined;
    await time.tickAsync(1_000);
    assert.match(sealer.encrypt(secret, field()), /^ENC\(/);
    await sealer.invalidateKeys();
    assert.equal(service.generated.length, 3);
  });

  it('shows no key when it is inspected', async () => {
    const raw = Buffer.from('0123456789abcdef0123456789abcdef');
    const sealer = open({ keys: [{ id: 'k', key: raw }], salt: 'the salt is secret' });
    const shown = inspect(sealer, { depth: 10, showHidden: true });
    for (const part of [
      '0123456789',
      raw.toString('base64').slice(0, 12),
      raw.toString('hex').slice(0, 12),
      'salt is',
    ])
      assert.ok(!shown.includes(part));
  });

  it('closes the provider', async () => {
    const close = sinon.fake.resolves(undefined);
    const sealer = createSealer({ provider: { ...fakeKeyService(), close }, keyIds: ['k'] });
    await sealer.ready();
    await sealer.close();
    assert.equal(close.callCount, 1);
    assert.throws(() => sealer.encrypt(secret, field('k')), { code: 'SVC_PROTECT_KEY_UNAVAILABLE' });
  });
});
