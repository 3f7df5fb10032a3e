import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { SvcError } from '../../src/ground/errors.ts';
import type {
  EnvelopeKeyProvider,
  KeyProvider,
  StaticKeyProvider,
} from '../../src/protect/keys/key-provider.ts';

/** What a suite needs to know of a provider. */
export interface KeyProviderUnderTest {
  /** A new client of the same service: nothing is shared but the keys. */
  open(): KeyProvider;
  /** One whose service cannot be reached. Kind `at-hand` has none. */
  openUnreachable?(): KeyProvider;
  /** Two keys that the service has. */
  readonly keyIds: readonly [string, string];
  /** A name that the service does not know. */
  readonly unknownKeyId: string;
  /** Tokens and keys that no error may show. */
  readonly secrets: readonly string[];
}

/** What was rejected with, after the promises on every error were checked. */
export async function rejection(
  call: Promise<unknown>,
  secrets: readonly string[] = [],
): Promise<{ code: string; message: string }> {
  const error = await call.then(
    () => assert.fail('the call succeeded'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof SvcError, inspect(error));
  assert.equal(error.name, error.code === 'SVC_PROTECT_KEY_ID' ? 'SvcError' : 'KeyProviderException');
  assert.match(error.message, /^[^\n\r]{10,400}$/);
  assert.ok(!('cause' in error), 'a cause is printed in full by loggers');
  for (const secret of secrets) assert.ok(!inspect(error).includes(secret), 'the error shows a secret');
  return { code: error.code, message: error.message };
}

export const codeOf = async (call: Promise<unknown>): Promise<string> => (await rejection(call)).code;

/** `static` keys are in a store that can be away, those `at-hand` are not. */
export type ProviderKind = 'envelope' | 'static' | 'at-hand';

/** The promises of the port in `src/protect/keys/key-provider.ts`, each as a test. Call it inside a `describe`. */
export function testKeyProvider(kind: ProviderKind, get: () => KeyProviderUnderTest): void {
  const opened: KeyProvider[] = [];
  const keep = <T extends KeyProvider>(provider: T): T => {
    opened.push(provider);
    return provider;
  };
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((provider) => provider.close?.()));
  });

  it('says what it is', () => {
    const provider = keep(get().open());
    assert.match(provider.name, /^[a-z][a-z0-9-]+$/);
    assert.equal(provider.supportsEnvelopeEncryption, kind === 'envelope');
  });

  it('closes unused, and twice', async () => {
    const provider = get().open();
    await provider.close?.();
    await provider.close?.();
  });

  if (kind === 'envelope') testEnvelope(get, keep);
  else testStatic(get, keep);
  if (kind === 'static') testStoreAway(get, keep);
}

type Keep = <T extends KeyProvider>(provider: T) => T;

function testEnvelope(get: () => KeyProviderUnderTest, keep: Keep): void {
  const open = (): EnvelopeKeyProvider => keep(get().open()) as EnvelopeKeyProvider;

  it('makes a data key of 32 bytes, and decrypts it again, with another client too', async () => {
    const [keyId] = get().keyIds;
    const { plaintext, encryptedKey } = await open().generateDataKey(keyId);
    assert.equal(plaintext.length, 32);
    assert.ok(encryptedKey.length >= 1 && encryptedKey.length <= 32_767, String(encryptedKey.length));
    assert.ok(!Buffer.from(encryptedKey).includes(Buffer.from(plaintext)));
    assert.deepEqual(Buffer.from(await open().decryptDataKey(keyId, encryptedKey)), Buffer.from(plaintext));
  });

  it('gives keys that belong to the caller: overwriting one spoils no other', async () => {
    const [keyId] = get().keyIds;
    const provider = open();
    const { plaintext, encryptedKey } = await provider.generateDataKey(keyId);
    const copy = Buffer.from(plaintext);
    plaintext.fill(0);
    const decrypted = await provider.decryptDataKey(keyId, encryptedKey);
    decrypted.fill(0);
    assert.deepEqual(Buffer.from(await provider.decryptDataKey(keyId, encryptedKey)), copy);
  });

  it('makes another data key each time, also several at once', async () => {
    const provider = open();
    const made = await Promise.all(
      [...get().keyIds, ...get().keyIds].map((id) => provider.generateDataKey(id)),
    );
    assert.equal(new Set(made.map(({ plaintext }) => Buffer.from(plaintext).toString('hex'))).size, 4);
    assert.equal(new Set(made.map(({ encryptedKey }) => Buffer.from(encryptedKey).toString('hex'))).size, 4);
  });

  it('decrypts with no other key', async () => {
    const [keyId, other] = get().keyIds;
    const { encryptedKey } = await open().generateDataKey(keyId);
    assert.equal(await codeOf(open().decryptDataKey(other, encryptedKey)), 'SVC_PROTECT_DECRYPT_FAILED');
  });

  it('refuses what is damaged, cut off, empty, too long or no encrypted key', async () => {
    const [keyId] = get().keyIds;
    const provider = open();
    const encryptedKey = Buffer.from((await provider.generateDataKey(keyId)).encryptedKey);
    const flipped = Buffer.from(encryptedKey);
    const middle = Math.floor(flipped.length * 0.6);
    flipped[middle] = flipped[middle] === 0x41 ? 0x42 : 0x41;
    const bad = [
      ...[flipped, encryptedKey.subarray(0, -5), Buffer.alloc(0), Buffer.alloc(32_767, 1)],
      ...[
        Buffer.from('not an encrypted key'),
        Buffer.from('\r\n"../x'),
        Buffer.concat([encryptedKey, encryptedKey]),
      ],
    ];
    for (const [at, each] of bad.entries()) {
      const { code } = await rejection(provider.decryptDataKey(keyId, each), get().secrets);
      assert.equal(code, 'SVC_PROTECT_DECRYPT_FAILED', `number ${at}`);
    }
  });

  it('refuses a key that the service does not have', async () => {
    const { unknownKeyId, keyIds, secrets } = get();
    const { encryptedKey } = await open().generateDataKey(keyIds[0]);
    for (const call of [
      () => open().generateDataKey(unknownKeyId),
      () => open().decryptDataKey(unknownKeyId, encryptedKey),
    ]) {
      assert.equal((await rejection(call(), secrets)).code, 'SVC_PROTECT_KEY_REFUSED');
    }
  });

  it('is unavailable while the service cannot be reached', async () => {
    const { keyIds, secrets } = get();
    const { encryptedKey } = await open().generateDataKey(keyIds[0]);
    const provider = keep(get().openUnreachable?.() ?? assert.fail()) as EnvelopeKeyProvider;
    for (const call of [
      () => provider.generateDataKey(keyIds[0]),
      () => provider.decryptDataKey(keyIds[0], encryptedKey),
    ]) {
      assert.equal((await rejection(call(), secrets)).code, 'SVC_PROTECT_KEY_UNAVAILABLE');
    }
  });
}

function testStatic(get: () => KeyProviderUnderTest, keep: Keep): void {
  const open = (): StaticKeyProvider => keep(get().open()) as StaticKeyProvider;

  it('gives 32 bytes, the same each time, and another key by another name', async () => {
    const [keyId, other] = get().keyIds;
    const provider = open();
    const key = Buffer.from(await provider.getKey(keyId));
    assert.equal(key.length, 32);
    assert.deepEqual(Buffer.from(await open().getKey(keyId)), key);
    assert.notDeepEqual(Buffer.from(await provider.getKey(other)), key);
  });

  it('gives keys that belong to the caller: overwriting one spoils no other', async () => {
    const [keyId] = get().keyIds;
    const provider = open();
    const key = await provider.getKey(keyId);
    const copy = Buffer.from(key);
    key.fill(0);
    assert.deepEqual(Buffer.from(await provider.getKey(keyId)), copy);
  });

  it('refuses a key that the service does not have', async () => {
    const { unknownKeyId, secrets } = get();
    assert.equal((await rejection(open().getKey(unknownKeyId), secrets)).code, 'SVC_PROTECT_KEY_REFUSED');
  });
}

function testStoreAway(get: () => KeyProviderUnderTest, keep: Keep): void {
  it('is unavailable while the service cannot be reached', async () => {
    const { keyIds, secrets } = get();
    const provider = keep(get().openUnreachable?.() ?? assert.fail()) as StaticKeyProvider;
    const { code } = await rejection(provider.getKey(keyIds[0]), secrets);
    assert.equal(code, 'SVC_PROTECT_KEY_UNAVAILABLE');
  });
}
