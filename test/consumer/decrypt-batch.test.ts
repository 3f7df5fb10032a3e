import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { createDecryptionKeys, decryptBatch } from '../../src/consumer/decrypt-fields.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { fakeKeyService, unavailable } from '../protect/fake-key-service.ts';

const configured = [{ id: 'k1', key: randomBytes(32) }];
const keys = createDecryptionKeys({ keys: configured });
const sealer = createSealer({ keys: configured, format: 'v1' });
const event = (email: string) => ({ eventId: '1', eventType: 'E', payload: { email } });
const sealed = (email: string) =>
  event(sealer.encrypt(email, { keyId: undefined, eventType: 'E', path: 'email' }));

describe('decryptBatch', () => {
  it('opens parsed envelopes, text and bytes, and gives one result for each value in their order', async () => {
    const [a, b, c] = ['a', 'b', 'c'].map(sealed);
    const results = await decryptBatch([a, JSON.stringify(b), Buffer.from(JSON.stringify(c)), null], keys);
    assert.deepEqual(results, [
      { ok: true, envelope: event('a'), decrypted: 1 },
      { ok: true, envelope: event('b'), decrypted: 1 },
      { ok: true, envelope: event('c'), decrypted: 1 },
      { ok: true, envelope: null, decrypted: 0 },
    ]);
  });

  it('sets a bad event aside without losing those around it', async () => {
    const bad = [
      event('ENC(v1:k1:CANARY!)'),
      { ...sealed('x'), eventType: 'OTHER' },
      'CANARY',
      '"CANARY"',
      '',
      Buffer.from([0xff, 0x7b]),
      {},
      [],
      `{"payload":${'['.repeat(100_000)}`,
      JSON.stringify({ payload: JSON.parse(`${'['.repeat(90)}${']'.repeat(90)}`) as unknown }),
    ];
    const results = await decryptBatch<unknown>(
      bad.flatMap((one) => [one, sealed('good')]),
      keys,
    );
    assert.equal(results.length, bad.length * 2);
    const codes = results.flatMap((result) => (result.ok ? [] : [[result.error.code, result.isTemporary]]));
    assert.deepEqual(codes, [
      ['SVC_PROTECT_CIPHERTEXT', false],
      ['SVC_PROTECT_DECRYPT_FAILED', false],
      ...Array.from({ length: 8 }, () => ['SVC_CONSUMER_NOT_AN_ENVELOPE', false]),
    ]);
    for (const [index, result] of results.entries())
      if (index % 2 === 1) assert.deepEqual(result, { ok: true, envelope: event('good'), decrypted: 1 });
    assert.ok(
      !inspect(
        results.filter(({ ok }) => !ok),
        { depth: 9 },
      ).includes('CANARY'),
    );
    const [first] = results;
    assert.ok(first?.ok === false);
    assert.match(first.error.message, /^email: the ciphertext is damaged/);
    assert.equal(first.failures.length, 1);
  });

  it('says of an event that it may open later', async () => {
    const service = fakeKeyService();
    const remote = createSealer({
      provider: service,
      defaultKeyId: 'main',
      keyIds: [undefined],
      format: 'v1',
    });
    await remote.ready();
    const text = remote.encrypt('x', { keyId: undefined, eventType: 'E', path: 'email' });
    await remote.close();
    service.failure = unavailable();
    const opener = createDecryptionKeys({ provider: service, keyIds: ['main'] });
    const also = { ...event(text), payload: { bad: 'ENC(v1:main:!)', email: text } };
    const results = await decryptBatch([event(text), also], opener);
    assert.deepEqual(
      results.map((result) => !result.ok && result.isTemporary),
      [true, false],
    );
    await opener.close();
  });
});
