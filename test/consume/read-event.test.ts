import assert from 'node:assert/strict';
import { readEvent } from '../../src/consume/handle-event.ts';
import { createDecryptionKeys } from '../../src/consumer/decrypt-fields.ts';
import type { Envelope } from '../../src/envelope/envelope.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { compilePolicy } from '../../src/protect/marks/policy.ts';
import { createProtector } from '../../src/protect/protect.ts';
import { payloadJson } from '../../src/serialize/serializer.ts';
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
    const { event, document } = await readEvent(record, { keys });
    assert.deepEqual(event.payload, payload);
    assert.doesNotMatch(JSON.stringify(document), /jane/);
    assert.deepEqual((await readEvent(record, {})).event.payload, sealed);
  });

  it('of a key that is not here is refused, with the path and no value', async () => {
    const keys = createDecryptionKeys({ keys: [{ id: 'other', key: Buffer.alloc(32, 2) }] });
    await assert.rejects(readEvent(record, { keys }), {
      code: 'SVC_PROTECT_KEY_UNKNOWN',
      message: /^email: /,
    });
  });

  it('is refused where it is none, or too deep', async () => {
    for (const text of ['', '7', '[]', '{}', '{"eventId":1}', '['.repeat(100_000), '{"a":'.repeat(1_000)])
      await assert.rejects(readEvent({ headers: {}, value: Buffer.from(text) }, {}), {
        code: 'SVC_CONSUME_UNREADABLE',
      });
  });
});
