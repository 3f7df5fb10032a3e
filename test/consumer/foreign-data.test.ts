import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { checkRulesOf } from '../../src/config/check/check.ts';
import {
  createDecryptionKeys,
  decryptBatch,
  decryptFields,
  type FieldChoice,
  tryDecryptFields,
} from '../../src/consumer/decrypt-fields.ts';
import type { Envelope } from '../../src/envelope/envelope.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { compilePolicy } from '../../src/protect/marks/policy.ts';
import { createProtector } from '../../src/protect/protect.ts';
import type { Sealer } from '../../src/protect/sealer.ts';
import { payloadJson } from '../../src/serialize/serializer.ts';
import { type FakeKeyService, fakeKeyService, unavailable } from '../protect/fake-key-service.ts';
import { useClock } from '../support/fake-time.ts';

const unknownKeys = { atOnce: 50, everyMs: 200, perEvent: 8 };

const configured = [{ id: 'k1', key: randomBytes(32) }];
const keys = createDecryptionKeys({ keys: configured });
const eventType = 'ORDER';
const envelope = (payload: unknown, metadata: unknown = {}) => ({
  eventId: '7',
  eventType,
  metadata,
  payload,
});
const codeOf = (code: string) => ({ code });

/** What a reader gets of a payload: protected, sent as JSON and parsed. */
function publish(payload: unknown, rules: unknown, sealer: Sealer, metadata: unknown = {}) {
  const checked = checkRulesOf(rules, true);
  if (!checked.ok) throw new TypeError(checked.message);
  const policy = compilePolicy(checked.value);
  const protect = createProtector({ policyOf: () => policy, sealer });
  const sealed = JSON.parse(payloadJson(protect({ template: { eventType }, payload } as Envelope)));
  return JSON.parse(JSON.stringify(envelope(sealed, metadata))) as ReturnType<typeof envelope>;
}

const sealers = (['v0', 'v1'] as const).map((format) =>
  createSealer({ keys: configured, format, salt: 'salt' }),
);
const captured = sealers.map((sealer) =>
  sealer.encrypt('CANARY', { keyId: undefined, eventType, path: 'email' }),
);
const looks = ['ENC(x)', 'ENC()', 'ENC(v1:k1:x)', 'ENC(v1:other:AAAA)', ...captured];

describe('what clients send', () => {
  it('in a header stays as it is, whatever it looks like, and breaks nothing', async () => {
    for (const sealer of sealers)
      for (const correlationId of looks) {
        const metadata = { correlationId, tags: { a: [correlationId] }, payload: correlationId };
        const event = publish({ email: 'a@b.example' }, ['email=EMAIL:ENCRYPT'], sealer, metadata);
        const opened = await decryptFields(event, keys, { v0: 'anywhere' });
        assert.deepEqual(opened, envelope({ email: 'a@b.example' }, metadata));
      }
  });

  it('in a payload comes back as it was, and is never opened', async () => {
    for (const sealer of sealers)
      for (const comment of [...looks, ...looks.map((text) => `\\${text}`), 'HASH(x)']) {
        const payload = { email: 'a@b.example', comment, lines: [{ [comment]: comment }] };
        const event = publish(payload, ['email=EMAIL:ENCRYPT'], sealer);
        assert.deepEqual((await decryptFields(event, keys, { v0: 'anywhere' })).payload, payload);
      }
  });

  it('comes back equal, whatever JSON it is and whichever fields are encrypted', async () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc
        .tuple(fc.constantFrom('', '\\', '\\\\'), fc.constantFrom(...looks, 'HASH(x)'))
        .map((parts) => parts.join('')),
    );
    const key = fc.constantFrom('a', 'b', 'email', '', 'a.b', '\0[*]', '[*]', '__proto__', 'ENC(x)');
    const payloads = fc.letrec((tie) => ({
      value: fc.oneof({ maxDepth: 4 }, text, fc.constant(null), tie('list'), tie('object')),
      list: fc.array(tie('value'), { maxLength: 4 }),
      object: fc.dictionary(key, tie('value'), { maxKeys: 4 }),
    })).object;
    const rules = fc.constantFrom(
      [],
      ['**.email=EMAIL:ENCRYPT'],
      ['**=CUSTOM:ENCRYPT'],
      ['a.b=CUSTOM:ENCRYPT'],
    );
    await fc.assert(
      fc.asyncProperty(payloads, rules, fc.constantFrom(...sealers), async (payload, declared, sealer) => {
        const event = publish(payload, declared, sealer);
        const { payload: opened } = await decryptFields(event, keys, { v0: 'anywhere' });
        assert.equal(JSON.stringify(opened), JSON.stringify(payload));
      }),
      { numRuns: 500 },
    );
  });
});

describe('format v0', () => {
  const [v0, bound] = captured as [string, string];

  it('is opened only in fields that somebody has named: a copy of it never comes back in clear', async () => {
    const event = envelope({ email: v0, comment: v0, deep: { list: [v0] } });
    const notNamed = codeOf('SVC_CONSUMER_FIELD_NOT_NAMED');
    await assert.rejects(decryptFields(event, keys), notNamed);
    const { envelope: same, decrypted, failures } = await tryDecryptFields(event, keys);
    assert.deepEqual([same, decrypted, failures.length], [event, 0, 3]);
    for (const options of [
      { only: ['email'] },
      { only: (path: string) => path === 'email' },
      { only: ['email'], v0: ['email', 'comment'] },
    ]) {
      const opened = await decryptFields(event, keys, options);
      assert.deepEqual(opened.payload, { ...(event.payload as object), email: 'CANARY' });
    }
    await assert.rejects(decryptFields(event, keys, { v0: ['email'] }), {
      ...notNamed,
      message: /^comment: format v0 does not bind .*\(only: \[…\]; svc decrypt --field\)$/,
    });
    const all = await decryptFields(event, keys, { v0: 'anywhere' });
    assert.deepEqual(all.payload, { email: 'CANARY', comment: 'CANARY', deep: { list: ['CANARY'] } });
  });

  it('does not need to be named for v1 to be opened, which says itself where it belongs', async () => {
    assert.deepEqual((await decryptFields(envelope({ email: bound }), keys)).payload, { email: 'CANARY' });
    await assert.rejects(
      decryptFields(envelope({ comment: bound }), keys),
      codeOf('SVC_PROTECT_DECRYPT_FAILED'),
    );
  });

  it('is named by paths as rules are: through arrays, at any depth, with what stands below', async () => {
    const seal = (text: string) => sealers[0]?.encrypt(text, { keyId: undefined, eventType, path: '' });
    const chosen = async (only: FieldChoice, payload: object) =>
      (await tryDecryptFields(envelope(payload), keys, { only })).decrypted;
    const list = { items: [{ phone: seal('1') }, { phone: seal('2') }], phone: seal('3'), 'a.b': seal('4') };
    assert.equal(await chosen(['items[*].phone'], list), 2);
    assert.equal(await chosen(['items.phone'], list), 2);
    assert.equal(await chosen(['**.phone'], list), 3);
    assert.equal(await chosen(['items'], list), 2);
    assert.equal(await chosen(['["a.b"]', 'phone'], list), 2);
    assert.equal(await chosen(['a.b'], list), 0);
    const byKey = { items: { '\0[*]': { phone: seal('1') } } };
    assert.equal(await chosen((path) => path === 'items[*].phone', byKey), 0);
    assert.equal(await chosen([], list), 0);
    await assert.rejects(chosen(['a..b'], list), TypeError);
  });
});

describe('the calls that foreign data causes to a key service', () => {
  const base64 = (bytes: Buffer) => bytes.toString('base64');
  /** Laid out as the envelope of a data key that nobody has made. */
  const forged = (keyId?: string) => {
    const text = base64(Buffer.concat([Buffer.from([0, 60]), randomBytes(60 + 40)]));
    return keyId === undefined ? `ENC(${text})` : `ENC(v1:${keyId}:${text})`;
  };
  let service: FakeKeyService;
  let nowMs: number;
  const open = (keyIds = ['main', 'cards']) =>
    createDecryptionKeys({ provider: service, keyIds, cache: { ttlMs: 300_000 } });
  const sealed = async (email: string) => {
    const sealer = createSealer({
      provider: service,
      defaultKeyId: 'main',
      keyIds: [undefined],
      format: 'v1',
    });
    await sealer.ready();
    const event = publish({ email }, ['email=EMAIL:ENCRYPT'], sealer);
    await sealer.close();
    return event;
  };
  beforeEach(() => {
    service = fakeKeyService();
    nowMs = 1_000;
    useClock({ monotonic: () => nowMs });
  });

  it('are none for 20 events without encrypted fields, whatever their headers and texts are', async () => {
    const keysOf = open();
    for (let index = 0; index < 20; index++) {
      const [text, v1] = [forged(), forged('main')];
      const event = publish({ note: text, list: [v1] }, [], sealers[0] as Sealer, {
        correlationId: text,
        userId: v1,
      });
      assert.deepEqual((await decryptFields(event, keysOf)).payload, { note: text, list: [v1] });
    }
    assert.deepEqual(service.decrypted, []);
  });

  it('are none for format v0 where nobody has named the field', async () => {
    await assert.rejects(
      decryptFields(envelope({ a: forged() }), open()),
      codeOf('SVC_CONSUMER_FIELD_NOT_NAMED'),
    );
    assert.deepEqual(service.decrypted, []);
  });

  it('end with the first field that fails, or for a whole event after eight data keys', async () => {
    assert.equal(unknownKeys.perEvent, 8);
    const event = () => envelope(Array.from({ length: 100 }, () => forged('main')));
    const keysOf = open();
    await assert.rejects(decryptFields(event(), keysOf), codeOf('SVC_PROTECT_DECRYPT_FAILED'));
    assert.equal(service.decrypted.length, 1);
    const { failures } = await tryDecryptFields(event(), keysOf);
    assert.equal(service.decrypted.length, 1 + 8);
    assert.deepEqual(
      failures.slice(7, 9).map(({ error }) => error.code),
      ['SVC_PROTECT_DECRYPT_FAILED', 'SVC_PROTECT_KEY_UNAVAILABLE'],
    );
  });

  it('are 50 for a flood of forged ones, and five a second after that; real events among them are opened', async () => {
    assert.deepEqual([unknownKeys.atOnce, unknownKeys.everyMs], [50, 200]);
    const [known, fresh] = [await sealed('known@example.com'), await sealed('fresh@example.com')];
    const flood = (count: number) => Array.from({ length: count }, () => envelope({ email: forged('main') }));
    const keysOf = open();
    const results = await decryptBatch([...flood(25), known, ...flood(10_000), known], keysOf);
    const opened = results.filter((result) => result.ok);
    assert.deepEqual(
      opened.map(({ envelope: { payload } }) => payload),
      [{ email: 'known@example.com' }, { email: 'known@example.com' }],
    );
    assert.equal(service.decrypted.length, 50 + 1);
    const isLater = (index: number) =>
      !results[index]?.ok && (results[index] as { isTemporary: boolean }).isTemporary;
    assert.deepEqual([isLater(25 + 25), isLater(25 + 26)], [false, true], 'last asked for, first put off');

    // A data key that was not seen before waits for its turn, and is not called damaged.
    await assert.rejects(decryptFields(fresh, keysOf), codeOf('SVC_PROTECT_KEY_UNAVAILABLE'));
    nowMs += 199;
    await assert.rejects(decryptFields(fresh, keysOf), codeOf('SVC_PROTECT_KEY_UNAVAILABLE'));
    nowMs += 1;
    assert.deepEqual((await decryptFields(fresh, keysOf)).payload, { email: 'fresh@example.com' });
    // It was known, and so costs nothing of what forged ones may.
    await decryptBatch(flood(100), keysOf);
    assert.equal(service.decrypted.length, 50 + 1 + 1 + 1);
    nowMs += 1_000;
    await decryptBatch(flood(100), keysOf);
    assert.equal(service.decrypted.length, 50 + 1 + 1 + 1 + 5);
    await keysOf.close();
  });

  it('are not limited for data keys that the service knows', async () => {
    const events = [];
    for (let index = 0; index < 200; index++) events.push(await sealed(`${index}@example.com`));
    const keysOf = open();
    const results = await Promise.all(events.map((event) => decryptFields(event, keysOf)));
    assert.equal(results.length, 200);
    assert.equal(service.decrypted.length, 200);
    assert.ok(service.maxAtOnce <= 8, `${service.maxAtOnce} at once`);
    await keysOf.close();
  });

  it('of format v0 count once for all key ids, and not at all where one of them fits', async () => {
    const sealer = createSealer({ provider: service, defaultKeyId: 'cards', keyIds: [undefined] });
    const only = ['email'];
    const keysOf = open();
    for (let index = 0; index < 60; index++) {
      await sealer.invalidateKeys();
      await sealer.ready();
      const event = publish({ email: `${index}` }, ['email=EMAIL:ENCRYPT'], sealer);
      assert.deepEqual((await decryptFields(event, keysOf, { only })).payload, { email: `${index}` });
    }
    assert.equal(service.decrypted.length, 120);
    for (let index = 0; index < 60; index++)
      await tryDecryptFields(envelope({ email: forged() }), keysOf, { only });
    assert.equal(service.decrypted.length, 120 + 50 * 2);
    await sealer.close();
    await keysOf.close();
  });

  it('are one for a forged one that comes again and again', async () => {
    const event = envelope({ email: forged('main') });
    const keysOf = open();
    for (let use = 0; use < 100; use++)
      await assert.rejects(decryptFields(event, keysOf), codeOf('SVC_PROTECT_DECRYPT_FAILED'));
    assert.equal(service.decrypted.length, 1);
  });

  it('are bounded while the service is away', async () => {
    service.failure = unavailable();
    const flood = Array.from({ length: 1_000 }, () => envelope({ email: forged('main') }));
    const results = await decryptBatch(flood, open());
    assert.equal(service.decrypted.length, 50);
    assert.ok(results.every((result) => !result.ok && result.isTemporary));
  });
});
