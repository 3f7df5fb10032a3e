import assert from 'node:assert/strict';
import type sinon from 'sinon';
import type { SvcError } from '../../../src/ground/errors.ts';
import { createKeyCache, type KeyCache, type KeyCacheOptions } from '../../../src/protect/keys/key-cache.ts';
import type { StaticKeyProvider } from '../../../src/protect/keys/key-provider.ts';
import type { KeyUse } from '../../../src/protect/keys/key-ring.ts';
import { fakeTime } from '../../support/fake-time.ts';
import { type FakeKeyService, fakeKeyService, refused, unavailable } from '../fake-key-service.ts';

const ttlMs = 300_000;
const isUnavailable = { code: 'SVC_PROTECT_KEY_UNAVAILABLE', name: 'KeyProviderException' };

const isZero = (key: Uint8Array): boolean => key.every((byte) => byte === 0);

describe('key cache', () => {
  let time: sinon.SinonFakeTimers;
  let service: FakeKeyService;
  let cache: KeyCache;

  function open(options: KeyCacheOptions = {}): KeyCache {
    cache = createKeyCache(service, options);
    return cache;
  }

  beforeEach(() => {
    time = fakeTime();
    service = fakeKeyService();
  });
  afterEach(() => {
    cache.close();
    time.restore();
  });

  describe('of keys that encrypt', () => {
    it('asks once for 10,000 concurrent uses, and never again before the TTL', async () => {
      open();
      const keys = await Promise.all(Array.from({ length: 10_000 }, () => cache.fetch('k')));
      assert.equal(new Set(keys).size, 1);
      await time.tickAsync(ttlMs - 1);
      for (let use = 0; use < 10_000; use++) assert.equal(cache.current('k'), keys[0]);
      assert.deepEqual(service.generated, ['k']);
    });

    it('asks once per TTL and key over hours of load, one at a time', async () => {
      open();
      await Promise.all(['a', 'b'].map((keyId) => cache.fetch(keyId)));
      const ttls = 24;
      for (let step = 0; step < ttls * 10; step++) {
        for (let use = 0; use < 1_000; use++) cache.current(use % 2 ? 'a' : 'b');
        await time.tickAsync(ttlMs / 10);
      }
      // The first keys, and one after each TTL that has passed.
      assert.equal(service.generated.filter((keyId) => keyId === 'a').length, ttls + 1);
      assert.equal(service.generated.filter((keyId) => keyId === 'b').length, ttls + 1);
    });

    it('has a fresh key for the first event after an idle night', async () => {
      open();
      await cache.fetch('k');
      await time.tickAsync(12 * 3_600_000);
      cache.current('k');
      const [state] = cache.states();
      assert.ok((state?.ageMs as number) <= ttlMs, `${state?.ageMs} ms old`);
    });

    it('replaces the key after its TTL, and encrypts with the old one until the new one is there', async () => {
      open();
      const first = await cache.fetch('k');
      let arrive = (): void => {};
      service.delay = new Promise((resolve) => {
        arrive = resolve;
      });
      await time.tickAsync(ttlMs - 1);
      assert.equal(service.generated.length, 1);
      await time.tickAsync(1);
      assert.equal(service.generated.length, 2);
      for (let use = 0; use < 100; use++) assert.equal(cache.current('k'), first);
      await time.tickAsync(5_000);
      assert.equal(cache.current('k'), first);
      arrive();
      await time.tickAsync(0);
      assert.notEqual(cache.current('k'), first);
      assert.equal(service.generated.length, 2);
    });

    it('goes on with a stale key up to maxStaleMs, then refuses, and recovers', async () => {
      open({ maxStaleMs: 60_000 });
      const first = await cache.fetch('k');
      service.failure = unavailable();
      await time.tickAsync(ttlMs + 60_000);
      assert.equal(cache.current('k'), first);
      await time.tickAsync(1);
      assert.throws(() => cache.current('k'), {
        ...isUnavailable,
        message: /^no usable encryption key "k" at the moment: fake: cannot be reached/,
      });
      assert.deepEqual(
        cache.states().map(({ keyId, usable, failure }) => ({ keyId, usable, failure })),
        [{ keyId: 'k', usable: false, failure: 'SVC_PROTECT_KEY_UNAVAILABLE' }],
      );
      service.failure = undefined;
      await time.tickAsync(30_000);
      assert.notEqual(cache.current('k'), first);
      assert.equal(cache.states()[0]?.failure, undefined);
    });

    it('is stale for as long as the TTL by default', async () => {
      open();
      await cache.fetch('k');
      service.failure = unavailable();
      await time.tickAsync(2 * ttlMs);
      cache.current('k');
      await time.tickAsync(1);
      assert.throws(() => cache.current('k'), isUnavailable);
    });

    for (const [what, uses, expected] of [
      ['1, 2, 4, 8, 16, 30, 30 seconds, where nobody wants the key', 0, [1, 3, 7, 15, 31, 61, 91]],
      ['2 seconds while events are refused, whatever the load', 50, [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]],
    ] as const) {
      it(`asks again after ${what}`, async () => {
        open();
        service.failure = unavailable();
        await assert.rejects(cache.fetch('k'), isUnavailable);
        const asked: number[] = [];
        for (let second = 1; second <= (expected.at(-1) ?? 0); second++) {
          const before = service.generated.length;
          await time.tickAsync(1_000);
          for (let use = 0; use < uses; use++) assert.throws(() => cache.current('k'), isUnavailable);
          await time.tickAsync(0);
          if (service.generated.length > before) asked.push(second);
        }
        assert.deepEqual(asked, expected);
        assert.equal(service.generated.length, 1 + asked.length);
      });
    }

    it('one refused event brings the next attempt forward, to two seconds after the last and not sooner', async () => {
      open();
      service.failure = refused();
      await assert.rejects(cache.fetch('k'));
      await time.tickAsync(500);
      assert.throws(() => cache.current('k'), isUnavailable);
      service.failure = undefined;
      await time.tickAsync(1_499);
      assert.throws(() => cache.current('k'), isUnavailable);
      assert.deepEqual(service.generated, ['k']);
      await time.tickAsync(1);
      assert.equal(cache.current('k').id, 'k');
    });

    it('after a long failure it asks at the next refused event at once', async () => {
      open();
      service.failure = refused();
      await assert.rejects(cache.fetch('k'));
      await time.tickAsync(10_000);
      service.failure = undefined;
      assert.throws(() => cache.current('k'), isUnavailable);
      await time.tickAsync(0);
      assert.equal(cache.current('k').id, 'k');
    });

    it('asks at once when what the provider signs in with changes, which it watches only while a key fails', async () => {
      const watching = new Set<() => void>();
      const watched = Object.assign(service, {
        watch(onChange: () => void) {
          watching.add(onChange);
          return () => void watching.delete(onChange);
        },
      });
      cache = createKeyCache(watched);
      await cache.fetch('fine');
      assert.equal(watching.size, 0);
      service.failure = refused();
      await assert.rejects(cache.fetch('k'));
      await assert.rejects(cache.fetch('k2'));
      assert.equal(watching.size, 1);
      service.failure = undefined;
      for (const tell of watching) tell();
      await time.tickAsync(0);
      assert.deepEqual([cache.current('k').id, cache.current('k2').id], ['k', 'k2']);
      assert.equal(watching.size, 0);
    });

    it('tells of the first failure in a row, and whether the present key goes on', async () => {
      const told: string[] = [];
      open({ onFailure: ({ keyId, error, usable }) => told.push(`${keyId} ${error.code} ${usable}`) });
      service.failure = unavailable();
      await assert.rejects(cache.fetch('k'));
      await time.tickAsync(60_000);
      assert.deepEqual(told, ['k SVC_PROTECT_KEY_UNAVAILABLE false']);
      service.failure = undefined;
      await time.tickAsync(30_000);
      service.failure = refused();
      await time.tickAsync(2 * ttlMs);
      assert.deepEqual(told, ['k SVC_PROTECT_KEY_UNAVAILABLE false', 'k SVC_PROTECT_KEY_REFUSED true']);
    });

    it('gives the same error without asking until the next attempt is due', async () => {
      open();
      service.failure = unavailable();
      for (let use = 0; use < 10; use++) await assert.rejects(cache.fetch('k'), isUnavailable);
      assert.deepEqual(service.generated, ['k']);
      service.failure = undefined;
      await time.tickAsync(1_000);
      assert.equal((await cache.fetch('k')).id, 'k');
      assert.deepEqual(service.generated, ['k', 'k']);
    });

    it('waits 30 seconds at once where only a person can help', async () => {
      open();
      service.failure = refused();
      await assert.rejects(cache.fetch('k'), { code: 'SVC_PROTECT_KEY_REFUSED' });
      await time.tickAsync(29_999);
      assert.deepEqual(service.generated, ['k']);
      await time.tickAsync(1);
      assert.deepEqual(service.generated, ['k', 'k']);
    });

    it('fetches a key that nobody asked for beforehand, and refuses until it is there', async () => {
      open();
      assert.throws(() => cache.current('k'), { ...isUnavailable, message: /not been fetched yet/ });
      await time.tickAsync(0);
      assert.equal(cache.current('k').id, 'k');
      assert.throws(() => cache.current('../k'), { code: 'SVC_PROTECT_KEY_ID' });
      await assert.rejects(cache.fetch('../k'), { code: 'SVC_PROTECT_KEY_ID' });
      assert.deepEqual(service.generated, ['k']);
    });

    it('shows nothing of an error that is not the provider’s own', async () => {
      open();
      service.failure = new Error('request with token s.12345 failed');
      await assert.rejects(cache.fetch('k'), (error: SvcError) => {
        assert.equal(error.code, 'SVC_PROTECT_KEY_UNAVAILABLE');
        return !error.message.includes('12345') && error.cause === undefined;
      });
    });

    it('overwrites the plain key that the provider handed out', async () => {
      open();
      const { head } = await cache.fetch('k');
      assert.deepEqual(service.handedOut.map(isZero), [true]);
      await cache.dataKey(['k'], (head as Buffer).subarray(2));
      assert.deepEqual(service.handedOut.map(isZero), [true, true]);
    });

    it('refuses a key of another length than 32 bytes', async () => {
      open();
      service.generateDataKey = async () => ({
        plaintext: new Uint8Array(16),
        encryptedKey: new Uint8Array(9),
      });
      await assert.rejects(cache.fetch('k'), { name: 'IllegalArgumentException', message: /found 16$/ });
    });

    it('evicts the oldest key, and none when a key is replaced', async () => {
      open({ maxEntries: 2 });
      await cache.fetch('a');
      await time.tickAsync(1_000);
      await cache.fetch('b');
      // `a` is replaced, so `b` is the oldest now.
      await time.tickAsync(ttlMs - 1_000);
      assert.deepEqual(
        cache.states().map(({ keyId }) => keyId),
        ['b', 'a'],
      );
      await cache.fetch('c');
      assert.deepEqual(
        cache.states().map(({ keyId }) => keyId),
        ['a', 'c'],
      );
      const before = service.generated.length;
      await time.tickAsync(ttlMs - 1);
      assert.ok(!service.generated.slice(before).includes('b'), 'an evicted key is not renewed');
    });

    it('encrypts no more values with a data key than allowed, and renews it in time', async () => {
      open({ maxMessages: 10 });
      const first = await cache.fetch('k');
      for (let use = 0; use < 8; use++) cache.current('k');
      const asked = (): number => service.generated.length;
      assert.equal(asked(), 1);
      assert.equal(cache.current('k'), first);
      assert.equal(asked(), 2);
      assert.equal(cache.current('k'), first);
      assert.throws(() => cache.current('k'), isUnavailable);
      await time.tickAsync(0);
      assert.notEqual(cache.current('k'), first);
    });

    it('stops at close: no timer, no late answer, no key', async () => {
      open();
      await cache.fetch('k');
      let arrive = (): void => {};
      service.delay = new Promise((resolve) => {
        arrive = resolve;
      });
      await time.tickAsync(ttlMs);
      cache.close();
      arrive();
      await time.tickAsync(10 * ttlMs);
      assert.equal(service.generated.length, 2);
      assert.equal(time.countTimers(), 0);
      assert.throws(() => cache.current('k'), isUnavailable);
    });
  });

  describe('invalidateAll', () => {
    it('forgets all keys at once and fetches them anew', async () => {
      open();
      const first = await cache.fetch('k');
      const done = cache.invalidateAll();
      assert.throws(() => cache.current('k'), isUnavailable);
      await done;
      assert.notEqual(cache.current('k'), first);
      assert.equal(service.generated.length, 2);
      assert.equal(service.maxAtOnce, 1);
    });

    it('keeps no answer to a question asked before it, and still asks one at a time', async () => {
      open();
      let arrive = (): void => {};
      service.delay = new Promise((resolve) => {
        arrive = resolve;
      });
      const fetched = cache.fetch('k');
      const done = cache.invalidateAll();
      arrive();
      const key = await fetched;
      await done;
      assert.equal(service.generated.length, 2);
      assert.equal(service.maxAtOnce, 1);
      assert.equal(cache.current('k'), key);
    });

    it('also forgets decrypted data keys, those under way included', async () => {
      open();
      const { encryptedKey } = await service.generateDataKey('k');
      await cache.dataKey(['k'], encryptedKey);
      await cache.invalidateAll();
      await cache.dataKey(['k'], encryptedKey);
      assert.equal(service.decrypted.length, 2);
      await cache.invalidateAll();
      const inFlight = cache.dataKey(['k'], encryptedKey);
      await cache.invalidateAll();
      await inFlight;
      await cache.dataKey(['k'], encryptedKey);
      assert.equal(service.decrypted.length, 4);
    });
  });

  describe('of data keys out of ciphertexts', () => {
    it('asks once per data key and TTL for 10,000 concurrent fields', async () => {
      open();
      const { encryptedKey } = await service.generateDataKey('k');
      const keys = await Promise.all(
        Array.from({ length: 10_000 }, () => cache.dataKey(['k'], encryptedKey)),
      );
      assert.equal(new Set(keys).size, 1);
      await time.tickAsync(ttlMs);
      await cache.dataKey(['k'], encryptedKey);
      assert.equal(service.decrypted.length, 1);
      await time.tickAsync(1);
      await cache.dataKey(['k'], encryptedKey);
      assert.equal(service.decrypted.length, 2);
    });

    it('keeps keys of different ids apart', async () => {
      open();
      const { encryptedKey } = await service.generateDataKey('k');
      await cache.dataKey(['k'], encryptedKey);
      await assert.rejects(cache.dataKey(['other'], encryptedKey), { code: 'SVC_PROTECT_DECRYPT_FAILED' });
      await assert.rejects(cache.dataKey(['a/b'], encryptedKey), { code: 'SVC_PROTECT_KEY_ID' });
      assert.deepEqual(service.decrypted, ['k', 'other']);
    });

    it('evicts the oldest one', async () => {
      open({ maxEntries: 2 });
      const made = await Promise.all(['1', '2', '3'].map(() => service.generateDataKey('k')));
      for (const { encryptedKey } of made) await cache.dataKey(['k'], encryptedKey);
      for (const { encryptedKey } of made.slice(1)) await cache.dataKey(['k'], encryptedKey);
      assert.equal(service.decrypted.length, 3);
      await cache.dataKey(['k'], (made[0] as { encryptedKey: Uint8Array }).encryptedKey);
      assert.equal(service.decrypted.length, 4);
    });

    it('remembers that one is damaged for the TTL, and that the service was away for a second', async () => {
      open();
      const damaged = Buffer.alloc(60);
      for (let use = 0; use < 10; use++)
        await assert.rejects(cache.dataKey(['k'], damaged), { code: 'SVC_PROTECT_DECRYPT_FAILED' });
      await time.tickAsync(ttlMs);
      await assert.rejects(cache.dataKey(['k'], damaged));
      assert.equal(service.decrypted.length, 1);

      const { encryptedKey } = await service.generateDataKey('k');
      service.failure = unavailable();
      for (let use = 0; use < 10; use++)
        await assert.rejects(cache.dataKey(['k'], encryptedKey), isUnavailable);
      assert.equal(service.decrypted.length, 2);
      service.failure = undefined;
      await time.tickAsync(1_001);
      await cache.dataKey(['k'], encryptedKey);
      assert.equal(service.decrypted.length, 3);
    });
  });

  describe('over a store of keys', () => {
    it('gives the stored key without a head, looks for a new one after the TTL, and has no data keys', async () => {
      let [reads, fill] = [0, 1];
      const store: StaticKeyProvider = {
        name: 'store',
        supportsEnvelopeEncryption: false,
        getKey: async () => {
          reads++;
          return new Uint8Array(32).fill(fill);
        },
      };
      cache = createKeyCache(store);
      const first = await cache.fetch('k');
      assert.equal(first.head, undefined);
      for (let use = 0; use < 100; use++) assert.equal(cache.current('k'), first);
      fill = 2;
      await time.tickAsync(ttlMs);
      assert.deepEqual(cache.current('k').key.export(), Buffer.alloc(32, 2));
      assert.equal(reads, 2);
      await assert.rejects(cache.dataKey(['k'], new Uint8Array(9)), { code: 'SVC_PROTECT_KEY_REFUSED' });
    });

    it('counts what a key encrypts over all its fetches, and begins anew with another one', async () => {
      let fill = 1;
      const store: StaticKeyProvider = {
        name: 'store',
        supportsEnvelopeEncryption: false,
        getKey: async () => new Uint8Array(32).fill(fill),
      };
      const worn: KeyUse[] = [];
      cache = createKeyCache(store, { maxMessages: 4, onWorn: (use) => worn.push(use) });
      await cache.fetch('k');
      for (let use = 0; use < 3; use++) cache.current('k');
      await time.tickAsync(ttlMs);
      await cache.invalidateAll();
      cache.current('k');
      assert.equal(cache.states()[0]?.usable, false);
      assert.throws(() => cache.current('k'), { code: 'SVC_PROTECT_KEY_USED_UP' });
      assert.deepEqual(worn, [
        { keyId: 'k', messages: 2, isUsedUp: false },
        { keyId: 'k', messages: 4, isUsedUp: true },
      ]);
      fill = 2;
      await time.tickAsync(ttlMs);
      assert.deepEqual(cache.current('k').key.export(), Buffer.alloc(32, 2));
      assert.equal(cache.states()[0]?.usable, true);
    });
  });
});
