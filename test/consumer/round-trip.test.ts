import assert from 'node:assert/strict';
import { decryptFields } from '../../src/consumer/decrypt-fields.ts';
import { createDecryptionKeys } from '../../src/consumer/decryption-keys.ts';
import type { Envelope } from '../../src/envelope/envelope.ts';
import { createSealer } from '../../src/protect/create-sealer.ts';
import { compilePolicy } from '../../src/protect/policy.ts';
import { createProtector } from '../../src/protect/protect.ts';

/** Both sides must find the same path for a value, or ciphertexts that are bound to their place do not open. */
describe('from the protector to the consumer', () => {
  const configured = [{ id: 'k1', key: Buffer.alloc(32, 1) }];
  const keys = createDecryptionKeys({ keys: configured });
  const policy = compilePolicy([{ path: '**', type: 'CUSTOM', strategy: 'ENCRYPT', level: 'NORMAL' }]);
  const date = new Date(0);

  async function roundTrip(payload: unknown, format: 'v0' | 'v1'): Promise<unknown> {
    const protect = createProtector({
      policyOf: () => policy,
      sealer: createSealer({ keys: configured, format }),
    });
    const sealed = protect({ template: { eventType: 'ORDER' }, payload } as Envelope).payload;
    const sent = JSON.stringify({ eventId: '1', eventType: 'ORDER', payload: sealed });
    assert.doesNotMatch(sent, /secret/);
    return (await decryptFields(JSON.parse(sent) as { payload: unknown }, keys)).payload;
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
});
