import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { createDecryptionKeys, decryptFields } from '../../src/consumer/decrypt-fields.ts';
import type { Envelope } from '../../src/envelope/envelope.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { compilePolicy } from '../../src/protect/marks/policy.ts';
import { createProtector } from '../../src/protect/protect.ts';
import { payloadJson } from '../../src/serialize/serializer.ts';

/** Both sides must find the same path for a value, or ciphertexts that are bound to their place do not open. */
describe('from the protector to the consumer', () => {
  const configured = [{ id: 'k1', key: Buffer.alloc(32, 1) }];
  const keys = createDecryptionKeys({ keys: configured });
  const policy = compilePolicy([{ path: '**', type: 'CUSTOM', strategy: 'ENCRYPT', level: 'NORMAL' }]);
  const date = new Date(0);

  function sealedOf(payload: unknown, format: 'v0' | 'v1', rules = policy): unknown {
    const protect = createProtector({
      policyOf: () => rules,
      sealer: createSealer({ keys: configured, format }),
    });
    return JSON.parse(payloadJson(protect({ template: { eventType: 'ORDER' }, payload } as Envelope)));
  }

  async function roundTrip(payload: unknown, format: 'v0' | 'v1'): Promise<unknown> {
    const sealed = sealedOf(payload, format);
    const sent = JSON.stringify({ eventId: '1', eventType: 'ORDER', payload: sealed });
    assert.doesNotMatch(sent, /secret/);
    return (await decryptFields(JSON.parse(sent) as { payload: unknown }, keys, { v0: 'anywhere' })).payload;
  }

  const cases: Readonly<Record<string, [payload: unknown, opened: unknown]>> = {
    'an object': [{ a: 'secret' }, { a: 'secret' }],
    'nested objects and arrays': [
      { a: { b: ['secret 1', { c: 'secret 2' }], d: [[3]] } },
      { a: { b: ['secret 1', { c: 'secret 2' }], d: [['3']] } },
    ],
    'a string': ['secret', { value: 'secret' }],
    'an array': [[{ a: 'secret' }, ['secret']], { value: [{ a: 'secret' }, ['secret']] }],
    'keys that are no names': [
      { 'a.b': 'secret', '': 'secret', '0': { '[*]': 'secret' } },
      { 'a.b': 'secret', '': 'secret', '0': { '[*]': 'secret' } },
    ],
    'maps and sets': [new Map([['a', new Set(['secret'])]]), { a: ['secret'] }],
    'dates, bytes, numbers and booleans': [
      { a: date, b: new Uint8Array([97]), c: 1.5, d: true, e: 5n },
      { a: date.toISOString(), b: 'YQ==', c: '1.5', d: 'true', e: '5' },
    ],
    'toJSON of the payload': [{ toJSON: () => ({ a: { b: 'secret' } }) }, { a: { b: 'secret' } }],
    'toJSON that gives an object': [
      { x: { y: { z: 'secret' } }, a: { toJSON: () => ({ b: 'secret', c: { d: 'secret' } }) } },
      { x: { y: { z: 'secret' } }, a: { b: 'secret', c: { d: 'secret' } } },
    ],
    'toJSON that gives an array': [
      { a: { toJSON: () => ['secret', { b: 'secret' }] } },
      { a: ['secret', { b: 'secret' }] },
    ],
    'toJSON that gives a map': [{ a: { toJSON: () => new Map([['b', 'secret']]) } }, { a: { b: 'secret' } }],
    'toJSON that gives a string': [{ a: { toJSON: () => 'secret' } }, { a: 'secret' }],
    'toJSON within toJSON': [
      { a: { toJSON: () => ({ b: { toJSON: () => ({ c: 'secret' }) } }) } },
      { a: { b: { c: 'secret' } } },
    ],
  };
  for (const format of ['v0', 'v1'] as const) {
    for (const [name, [payload, opened]] of Object.entries(cases)) {
      it(`${format}: ${name}`, async () => assert.deepEqual(await roundTrip(payload, format), opened));
    }
  }

  it('v1: a key of a payload is never taken for an element of an array', async () => {
    const names = ['\0[*]', '[*]', '*', '', '.', 'a.b', '["a"]', 'a[*]', '0', '\\', '"', '\u2028', '\ud800'];
    for (const name of names) {
      const payload = { list: { [name]: { phone: 'secret' } } };
      assert.deepEqual(await roundTrip(payload, 'v1'), payload, JSON.stringify(name));
      const sealed = sealedOf(payload, 'v1') as { list: Record<string, { phone: string }> };
      const phone = (sealed.list[name] as { phone: string }).phone;
      for (const forged of [{ list: [{ phone }] }, { list: { phone } }, { [`list.${name}`]: { phone } }])
        await assert.rejects(
          decryptFields({ eventId: '1', eventType: 'ORDER', payload: forged }, keys),
          { code: 'SVC_PROTECT_DECRYPT_FAILED' },
          JSON.stringify(name),
        );
    }
  });

  it('v1: two places never have the same path, elements of one array apart', () => {
    const key = fc.constantFrom('a', 'b', '', '.', '*', '[*]', '\0[*]', '\0', 'a.b', '["a"]', 'value', '0');
    const step = fc.oneof(key, fc.constant(undefined));
    const pathOf = (steps: readonly (string | undefined)[]) => {
      let payload: unknown = 'secret';
      for (const one of [...steps].reverse()) payload = one === undefined ? [payload] : { [one]: payload };
      const paths: string[] = [];
      const sealer = {
        hash: () => '',
        encrypt: (_: string, { path }: { path: string }) => `ENC(${paths.push(path)})`,
      };
      createProtector({ policyOf: () => policy, sealer })({
        template: { eventType: 'E' },
        payload,
      } as Envelope);
      return paths[0];
    };
    // As it is published: what is no object stands under the key `value`.
    const published = (steps: readonly (string | undefined)[]) =>
      steps[0] === undefined ? ['value', ...steps] : steps;
    fc.assert(
      fc.property(fc.array(step, { maxLength: 5 }), fc.array(step, { maxLength: 5 }), (one, other) => {
        const isSame = isDeepStrictEqual(published(one), published(other));
        assert.equal(pathOf(one) === pathOf(other), isSame);
      }),
      { numRuns: 2_000 },
    );
    assert.equal(pathOf(['items', undefined, 'phone']), 'items[*].phone');
    assert.equal(pathOf(['rates', 'a.b', '']), 'rates["a.b"][""]');
  });
});
