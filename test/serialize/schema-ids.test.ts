import assert from 'node:assert/strict';
import { SvcError } from '../../src/ground/errors.ts';
import type { ProtectedEnvelope } from '../../src/protect/protect.ts';
import { createAvroSerializer, createEventCodec, createSchemaIds } from '../../src/serialize/avro/avro.ts';
import type { Subject } from '../../src/serialize/avro/schema-registry.ts';
import { useClock } from '../support/fake-time.ts';

const away = () => new SvcError('SVC_SERIALIZE_REGISTRY_AWAY', 'away');
const refused = () => new SvcError('SVC_SERIALIZE_SCHEMA_REFUSED', 'refused');

/** A registry that answers as it is told to, and a clock that stands. */
function scene(autoRegister = true) {
  const its = {
    nowMs: 0,
    answer: async (): Promise<number> => 7,
    asked: [] as [how: string, subject: Subject][],
    said: [] as string[],
  };
  const how = (name: string) => (subject: Subject) => {
    its.asked.push([name, subject]);
    return its.answer();
  };
  const registry = {
    ...{ address: 'http://registry', register: how('register'), lookUp: how('lookUp') },
    isCompatible: async () => true,
    schemaOf: async () => '',
  };
  useClock({ monotonic: () => its.nowMs });
  useClock({ monotonic: () => its.nowMs });
  const ids = createSchemaIds({
    ...{ registry, strategy: 'topic-record', autoRegister },
    onAway: (message) => void its.said.push(`away: ${message}`),
    onBack: () => void its.said.push('back'),
    onRefused: ({ message }) => void its.said.push(message),
  });
  return { its, ids, codec: createEventCodec('T') };
}

describe('ids of schemas', () => {
  it('are asked for once, however many ask', async () => {
    const { its, ids, codec } = scene();
    assert.equal(ids.known(codec, 'orders'), undefined);
    assert.deepEqual(await Promise.all([ids.ask(codec, 'orders'), ids.ask(codec, 'orders')]), [7, 7]);
    assert.equal(await ids.ask(codec, 'orders'), 7);
    assert.equal(ids.known(codec, 'orders'), 7);
    const subject = { subject: 'orders-svc.events.T', schema: codec.schema };
    assert.deepEqual(its.asked, [['register', subject]]);
    assert.equal(ids.known(codec, 'payments'), undefined, 'another subject');
  });

  it('are looked up where svc does not register', async () => {
    const { its, ids, codec } = scene(false);
    await ids.ask(codec, 'orders');
    assert.deepEqual(
      its.asked.map(([name]) => name),
      ['lookUp'],
    );
  });

  for (const [what, failure, pauseMs, said] of [
    ['a registry that is away is asked again after 1 s', away, 1_000, ['away: away', 'back']],
    ['a schema that it refuses is offered again after 10 s', refused, 10_000, ['refused']],
  ] as const)
    it(`${what}, and a line says so once`, async () => {
      const { its, ids, codec } = scene();
      its.answer = () => Promise.reject(failure());
      for (its.nowMs of [0, pauseMs - 1]) await assert.rejects(ids.ask(codec, 'orders'), failure());
      assert.equal(its.asked.length, 1);
      its.answer = async () => 8;
      its.nowMs = pauseMs;
      assert.equal(await ids.ask(codec, 'orders'), 8);
      assert.deepEqual(its.said, said);
    });

  it('an event that nobody sends later is refused until its id is known, which is asked for meanwhile', async () => {
    const { its, ids, codec } = scene();
    const serializer = createAvroSerializer({ codecOf: () => codec, ids, mayWait: false });
    const envelope = {
      ...{ eventId: '1', occurredAt: '2026-11-24T00:00:00.000Z', payload: { a: 1 }, sealed: [] },
      template: {
        ...{ eventType: 'T', severity: 'INFO' },
        source: { serviceName: null, serviceVersion: null, hostname: null },
      },
      trace: { traceId: null, spanId: null, parentSpanId: null },
      origin: { userId: null, sessionId: null, correlationId: null, clientIp: null, tags: null },
    } as unknown as ProtectedEnvelope;
    assert.throws(() => serializer.serialize(envelope, { topic: 'orders', trace: { traceparent: '' } }), {
      code: 'SVC_SERIALIZE_REGISTRY_AWAY',
    });
    await new Promise((done) => setImmediate(done));
    assert.equal(its.asked.length, 1);
    assert.equal(
      serializer.serialize(envelope, { topic: 'orders', trace: { traceparent: '' } }).form.encoding,
      'latin1',
    );
  });
});
