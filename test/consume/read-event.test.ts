import assert from 'node:assert/strict';
import type { EventHandler } from '../../src/consume/handle-event.ts';
import { createDecryptionKeys } from '../../src/consumer/decrypt-fields.ts';
import type { Envelope } from '../../src/envelope/envelope.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { compilePolicy } from '../../src/protect/marks/policy.ts';
import { createProtector } from '../../src/protect/protect.ts';
import { payloadJson } from '../../src/serialize/serializer.ts';
import { eventOf, handling } from './handling-under-test.ts';
import { envelope } from './on-kafka.ts';

describe('the event of a record', () => {
  const configured = [{ id: 'k1', key: Buffer.alloc(32, 1) }];
  const policy = compilePolicy([{ path: 'email', type: 'EMAIL', strategy: 'ENCRYPT', level: 'NORMAL' }]);
  const protect = createProtector({
    policyOf: () => policy,
    sealer: createSealer({ keys: configured, format: 'v1' }),
  });
  const payload = { id: 1, email: 'jane@example.com' };
  const sealed = JSON.parse(
    payloadJson(protect({ template: { eventType: 'ORDER_PLACED' }, payload } as unknown as Envelope)),
  );
  const record = { headers: {}, value: Buffer.from(JSON.stringify(envelope('1', { payload: sealed }))) };

  it('is decrypted where there are keys, and what goes to the dead letters is not', async () => {
    const keys = createDecryptionKeys({ keys: configured });
    const failing = (): never => {
      throw new TypeError('a fault of the handler');
    };
    const handlers = new Map<string, EventHandler>([['*', failing]]);
    assert.deepEqual((await eventOf(record, { keys })).payload, payload);
    const { its, take } = handling({ handlers, keys });
    await take({}, record);
    const [letter] = its.buried;
    assert.ok(letter !== undefined);
    assert.deepEqual((letter.document as { payload: unknown }).payload, sealed);
    assert.doesNotMatch(JSON.stringify(letter), /jane/);
    assert.deepEqual((await eventOf(record)).payload, sealed);
  });

  it('of a key that is not here is refused, with the path and no value', async () => {
    const keys = createDecryptionKeys({ keys: [{ id: 'other', key: Buffer.alloc(32, 2) }] });
    await assert.rejects(eventOf(record, { keys }), {
      code: 'SVC_PROTECT_KEY_UNKNOWN',
      message: /^email: /,
    });
  });

  it('is refused where it is none, or too deep', async () => {
    const typeless = '{"eventId":"1","metadata":{},"payload":1}';
    for (const text of [
      '7',
      '[]',
      '{}',
      '{"eventId":1}',
      typeless,
      '['.repeat(100_000),
      '{"a":'.repeat(1_000),
    ])
      await assert.rejects(eventOf({ headers: {}, value: Buffer.from(text) }), {
        code: 'SVC_CONSUME_UNREADABLE',
      });
  });

  it('is none where a compacted topic has an empty value: it is not handled, and not refused', async () => {
    for (const value of [null, Buffer.alloc(0)]) {
      const { its, take } = handling({ handlers: new Map([['*', () => assert.fail()]]) });
      await take({}, { value });
      assert.deepEqual([its.inboxIds, its.buried, its.errors], [[], [], []]);
    }
  });
});
