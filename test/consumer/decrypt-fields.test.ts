import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import fc from 'fast-check';
import {
  createDecryptionKeys,
  type DecryptionKeys,
  decryptFields,
  tryDecryptFields,
} from '../../src/consumer/decrypt-fields.ts';
import type { SvcError } from '../../src/ground/errors.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import type { StaticKeyProvider } from '../../src/protect/keys/key-provider.ts';
import { elementPath, memberPath } from '../../src/protect/own-text.ts';
import { fakeKeyService, unavailable } from '../protect/fake-key-service.ts';

const key = randomBytes(32).toString('base64');
const keys: DecryptionKeys = createDecryptionKeys({ keys: [{ id: 'k1', key }] });
const eventType = 'ORDER';
const place = (path: string, keyId?: string) => ({ keyId, eventType, path });
const envelope = (payload: unknown) => ({ eventId: '7', eventType, payload });
const v0 = createSealer({ keys: [{ id: 'k1', key }], salt: 'a salt of 16 bytes' });
const v1 = createSealer({ keys: [{ id: 'k1', key }], format: 'v1' });
/** Format v0 as well, which these tests are not about. */
const anywhere = { v0: 'anywhere' } as const;
const codeOf = (code: string) => ({ code });

describe('decryptFields', () => {
  it('decrypts every field wherever it stands, leaves the rest and changes nothing that it was given', async () => {
    for (const sealer of [v0, v1]) {
      const hash = v0.hash('x');
      const given = {
        ...envelope({
          customer: { email: sealer.encrypt('a@b.example', place('customer.email')), name: 'J***', hash },
          items: [
            { phone: sealer.encrypt('1', place('items[*].phone')) },
            { phone: sealer.encrypt('2', place('items[*].phone')) },
          ],
          'a.b': [[sealer.encrypt('3', place('["a.b"][*][*]'))]],
          empty: sealer.encrypt('', place('empty')),
          count: 1,
          none: null,
        }),
        metadata: { clientIp: '192.0.2.1' },
      };
      const before = structuredClone(given);
      const { payload, metadata } = await decryptFields(given, keys, anywhere);
      assert.deepEqual(payload, {
        customer: { email: 'a@b.example', name: 'J***', hash },
        items: [{ phone: '1' }, { phone: '2' }],
        'a.b': [['3']],
        empty: '',
        count: 1,
        none: null,
      });
      assert.deepEqual(metadata, { clientIp: '192.0.2.1' });
      assert.deepEqual(given, before);
    }
  });

  it('v1 opens in no other field, event type or key id, and not without its prefix', async () => {
    const text = v1.encrypt('secret', place('customer.email'));
    assert.deepEqual((await decryptFields(envelope({ customer: { email: text } }), keys)).payload, {
      customer: { email: 'secret' },
    });
    const two = createDecryptionKeys({
      keys: [
        { id: 'k1', key },
        { id: 'k2', key },
      ],
    });
    const failed = codeOf('SVC_PROTECT_DECRYPT_FAILED');
    await assert.rejects(decryptFields(envelope({ customer: { phone: text } }), keys), failed);
    await assert.rejects(decryptFields(envelope({ email: text }), keys), failed);
    const otherType = { ...envelope({ customer: { email: text } }), eventType: 'REFUND' };
    await assert.rejects(decryptFields(otherType, keys), failed);
    const renamed = text.replace('v1:k1:', 'v1:k2:');
    await assert.rejects(decryptFields(envelope({ customer: { email: renamed } }), two), failed);
    const stripped = text.replace('v1:k1:', '');
    await assert.rejects(decryptFields(envelope({ customer: { email: stripped } }), keys, anywhere), failed);
    const raised = v0.encrypt('secret', place('customer.email')).replace('ENC(', 'ENC(v1:k1:');
    await assert.rejects(decryptFields(envelope({ customer: { email: raised } }), keys), failed);
  });

  it('reads events from before and after a rotation, in both formats', async () => {
    const next = randomBytes(32).toString('base64');
    for (const format of ['v0', 'v1'] as const) {
      const before = createSealer({ keys: [{ id: '2026', key }], format });
      const after = createSealer({
        keys: [
          { id: '2026', key, status: 'decrypt' },
          { id: '2027', key: next, status: 'primary' },
        ],
        format,
      });
      const event = envelope({ a: before.encrypt('old', place('a')), b: after.encrypt('new', place('b')) });
      const both = createDecryptionKeys({
        keys: [
          { id: '2027', key: next },
          { id: '2026', key },
        ],
      });
      assert.deepEqual((await decryptFields(event, both, anywhere)).payload, { a: 'old', b: 'new' });
      const onlyNew = await tryDecryptFields(
        event,
        createDecryptionKeys({ keys: [{ id: '2027', key: next }] }),
        anywhere,
      );
      assert.deepEqual(
        onlyNew.failures.map(({ path, error }) => [path, error.code]),
        [['a', format === 'v1' ? 'SVC_PROTECT_KEY_UNKNOWN' : 'SVC_PROTECT_DECRYPT_FAILED']],
      );
      assert.deepEqual(
        [onlyNew.decrypted, onlyNew.envelope.payload],
        [1, { ...(event.payload as object), b: 'new' }],
      );
    }
  });

  it('an unknown key id is an error that lists the known ones, never a try with another key', async () => {
    const text = v1.encrypt('secret', place('a')).replace('v1:k1:', 'v1:CANARY:');
    await assert.rejects(decryptFields(envelope({ a: text }), keys), {
      code: 'SVC_PROTECT_KEY_UNKNOWN',
      message: 'a: the ciphertext needs a key that is not among these: k1',
    });
  });

  it('gives clear errors for a short IV, a short ciphertext, a wrong key and damage', async () => {
    const open = (text: string) => decryptFields(envelope({ a: [{ b: text }] }), keys, anywhere);
    const damaged = 'SVC_PROTECT_CIPHERTEXT';
    const of = (bytes: number) => `ENC(${Buffer.alloc(bytes).toString('base64')})`;
    await assert.rejects(open(of(11)), {
      code: damaged,
      message: /^a\[\*\]\.b: Envelope decryption error: the IV is 11/,
    });
    await assert.rejects(open(of(27)), { code: damaged, message: /27 bytes are too short/ });
    await assert.rejects(open(of(28)), { code: 'SVC_PROTECT_DECRYPT_FAILED', message: /wrong key, damaged/ });
    await assert.rejects(open('ENC(not base64!)'), { code: damaged, message: /not valid Base64/ });
    await assert.rejects(open('ENC()'), { code: damaged });
  });

  it('decrypts only the fields it is told to', async () => {
    const copied = v0.encrypt('secret', place('customer.email'));
    const event = envelope({ customer: { email: copied }, comment: copied });
    const { payload } = await decryptFields(event, keys, { only: (path) => path === 'customer.email' });
    assert.deepEqual(payload, { customer: { email: 'secret' }, comment: copied });
  });

  it('shows neither values nor keys of maps in its messages', async () => {
    const event = envelope({ balances: { 'jonathan@example.com': 'ENC(CANARY-VALUE)' } });
    await assert.rejects(decryptFields(event, keys, anywhere), (error: SvcError) => {
      assert.equal(error.message, 'balances[?]: the ciphertext is damaged: it is not valid Base64');
      return !inspect(error).includes('CANARY') && !inspect(error).includes('jonathan');
    });
  });

  it('keeps a key __proto__ a key', async () => {
    const event = JSON.parse(
      `{"eventType":"ORDER","payload":{"__proto__":{"a":"${v0.encrypt('x', place('a'))}"}}}`,
    );
    const text = JSON.stringify(await decryptFields(event, keys, anywhere));
    assert.equal(text, '{"eventType":"ORDER","payload":{"__proto__":{"a":"x"}}}');
    assert.equal(({} as { a?: string }).a, undefined);
  });

  it('refuses what is too deep, too large or circular', async () => {
    const nested = (levels: number): unknown => JSON.parse(`${'['.repeat(levels)}1${']'.repeat(levels)}`);
    const payloadOf = async (payload: unknown) => (await decryptFields(envelope(payload), keys)).payload;
    assert.equal(JSON.stringify(await payloadOf(nested(80))).length, 161);
    const refused = codeOf('SVC_CONSUMER_NOT_AN_ENVELOPE');
    await assert.rejects(payloadOf(nested(81)), refused);
    await assert.rejects(payloadOf(nested(100_000)), refused);
    const circular: Record<string, unknown> = {};
    Object.assign(circular, { a: circular, b: circular });
    await assert.rejects(payloadOf(circular), refused);
    assert.equal(((await payloadOf(new Array(199_999).fill(0))) as unknown[]).length, 199_999);
    await assert.rejects(payloadOf(new Array(200_000).fill(0)), refused);
  });

  it('refuses what has no payload, such as a payload alone, rather than to leave it encrypted in silence', async () => {
    for (const given of [{}, [], { customer: { email: 'ENC(x)' } }])
      await assert.rejects(decryptFields(given, keys), codeOf('SVC_CONSUMER_NOT_AN_ENVELOPE'));
  });

  it('passes values that are no objects', async () => {
    for (const value of [undefined, null, 1, 'text']) assert.equal(await decryptFields(value, keys), value);
  });

  it('gives back what was encrypted, whatever the payload, in both formats', async () => {
    const unit = 'binary';
    const json = fc.letrec((tie) => ({
      value: fc.oneof({ maxDepth: 4 }, fc.string({ unit }), fc.integer(), tie('list'), tie('object')),
      list: fc.array(tie('value'), { maxLength: 4 }),
      object: fc.dictionary(fc.string({ unit, minLength: 1, maxLength: 6 }), tie('value'), { maxKeys: 4 }),
    })).object;
    await fc.assert(
      fc.asyncProperty(json, fc.constantFrom(v0, v1), async (payload, sealer) => {
        const sealed = sealAll(payload, '', (text, path) => sealer.encrypt(text, place(path)));
        const sent = JSON.parse(JSON.stringify(envelope(sealed))) as object;
        const { payload: opened } = (await decryptFields(sent, keys, anywhere)) as {
          payload: unknown;
        };
        assert.equal(JSON.stringify(opened), JSON.stringify(payload));
      }),
    );
  });

  it('ends in a result or a coded error for anything that claims to be a ciphertext', async () => {
    const inner = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.base64String(),
      fc.base64String().map((base64) => `v1:k1:${base64}`),
      fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes).toString('base64')),
    );
    const provider = fakeKeyService();
    const all = createDecryptionKeys({ keys: [{ id: 'k1', key }], provider, keyIds: ['k2'] });
    await fc.assert(
      fc.asyncProperty(inner, async (text) => {
        const { failures } = await tryDecryptFields(envelope({ a: `ENC(${text})` }), all, anywhere);
        assert.equal(failures.length, 1);
        assert.match(
          (failures[0] as { error: SvcError }).error.code,
          /^SVC_PROTECT_(CIPHERTEXT|DECRYPT_FAILED|KEY_UNKNOWN|KEY_UNAVAILABLE)$/,
        );
      }),
      { numRuns: 500 },
    );
    await all.close();
  });
});

/** Every text in a payload encrypted, with the path that the walk of the publishing side gives it. */
function sealAll(value: unknown, path: string, seal: (text: string, path: string) => string): unknown {
  if (typeof value === 'string') return seal(value, path);
  if (Array.isArray(value)) return value.map((one) => sealAll(one, elementPath(path), seal));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, sealAll(one, memberPath(path, name), seal)]),
  );
}

describe('decryption keys', () => {
  it('are needed: one key at least, or a provider with its key ids', () => {
    assert.throws(() => createDecryptionKeys({}), { code: 'SVC_PROTECT_NO_KEY' });
    assert.throws(() => createDecryptionKeys({ provider: fakeKeyService() }), {
      code: 'SVC_PROTECT_KEY_LIST',
    });
    assert.throws(() => createDecryptionKeys({ provider: fakeKeyService(), keyIds: ['a/b'] }), {
      code: 'SVC_PROTECT_KEY_ID',
    });
    assert.throws(() => createDecryptionKeys({ keys: [{ id: 'a', key: 'eA==' }] }), {
      name: 'IllegalArgumentException',
    });
  });

  it('open envelope encryption through the provider, one call a data key', async () => {
    const service = fakeKeyService();
    for (const format of ['v0', 'v1'] as const) {
      const sealer = createSealer({
        provider: service,
        defaultKeyId: 'main',
        keyIds: [undefined, 'cards'],
        format,
      });
      await sealer.ready();
      const items = Array.from({ length: 100 }, (_, index) =>
        sealer.encrypt(`${index}`, place('items[*]', index % 2 ? 'cards' : undefined)),
      );
      await sealer.close();
      service.decrypted.length = 0;
      const opener = createDecryptionKeys({ provider: service, keyIds: ['main', 'cards'] });
      const { payload } = await decryptFields(envelope({ items }), opener, { only: ['items'] });
      assert.deepEqual(
        (payload as { items: string[] }).items,
        items.map((_, index) => `${index}`),
      );
      // Format v0 names no key, so that the wrong one is asked for as well, once.
      assert.equal(service.decrypted.length, format === 'v1' ? 2 : 3);
      await opener.close();
    }
  });

  it('ask the provider for the listed key ids only', async () => {
    const service = fakeKeyService();
    const sealer = createSealer({ provider: service, keyIds: ['cards'], format: 'v1' });
    await sealer.ready();
    const event = envelope({ a: sealer.encrypt('x', place('a', 'cards')) });
    const opener = createDecryptionKeys({ provider: service, keyIds: ['main'] });
    await assert.rejects(decryptFields(event, opener), { code: 'SVC_PROTECT_KEY_UNKNOWN' });
    assert.deepEqual(service.decrypted, []);
    await sealer.close();
  });

  it('say that the key service is away rather than that the key is wrong', async () => {
    const service = fakeKeyService();
    const sealer = createSealer({ provider: service, keyIds: ['main'] });
    await sealer.ready();
    const event = envelope({ a: sealer.encrypt('x', place('a', 'main')) });
    service.failure = unavailable();
    const opener = createDecryptionKeys({ keys: [{ id: 'k1', key }], provider: service, keyIds: ['main'] });
    await assert.rejects(decryptFields(event, opener, { only: ['a'] }), {
      code: 'SVC_PROTECT_KEY_UNAVAILABLE',
      name: 'KeyProviderException',
    });
    await sealer.close();
  });

  it('open static ciphertexts with the keys of a store', async () => {
    const store: StaticKeyProvider = {
      name: 'store',
      supportsEnvelopeEncryption: false,
      getKey: async () => new Uint8Array(Buffer.from(key, 'base64')),
    };
    const opener = createDecryptionKeys({ provider: store, keyIds: ['k1'] });
    const event = envelope({ a: v0.encrypt('x', place('a')), b: v1.encrypt('y', place('b')) });
    assert.deepEqual((await decryptFields(event, opener, { only: ['a', 'b'] })).payload, { a: 'x', b: 'y' });
    await opener.close();
  });

  it('show nothing when inspected', () => {
    const shown = inspect(createDecryptionKeys({ keys: [{ id: 'k1', key }] }), {
      depth: 10,
      showHidden: true,
    });
    assert.ok(!shown.includes(key.slice(0, 12)));
    assert.ok(!shown.includes(Buffer.from(key, 'base64').toString('hex').slice(0, 12)));
  });
});
