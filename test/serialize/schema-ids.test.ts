import assert from 'node:assert/strict';
import type { Config } from '../../src/config/config.ts';
import { SvcError } from '../../src/ground/errors.ts';
import type { Subject } from '../../src/serialize/avro/schema-registry.ts';
import { useClock } from '../support/fake-time.ts';
import { avroConfig, avroOf, bytesAt, protectedEvent } from './avro-of.ts';

const away = () => new SvcError('SVC_SERIALIZE_REGISTRY_AWAY', 'away');
const refused = () => new SvcError('SVC_SERIALIZE_SCHEMA_REFUSED', 'refused');

/** A registry that answers as it is told to, and a clock that stands. */
function scene({ autoRegister = true, outbox = {} as Partial<Config['outbox']> } = {}) {
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
  const says = (message: string) => void its.said.push(message);
  useClock({ monotonic: () => its.nowMs });
  const avro = avroOf({
    config: avroConfig({}, { subjectNameStrategy: 'topic-record', autoRegister }, outbox),
    registry: { register: how('register'), lookUp: how('lookUp') },
    logger: { debug() {}, info: says, warn: says, error: says },
  });
  const serialize = (topic: string) =>
    avro.serializerOf().serialize(protectedEvent({ a: 1 }), recordOf(topic));
  return {
    its,
    serialize,
    /** The id that a record gets which has waited for it. */
    ask: async (topic: string) => (await avro.encode(topic, waiting)).value.readUInt32BE(1),
    isKnown: (topic: string) => serialize(topic).form.encoding === 'latin1',
  };
}

const recordOf = (topic: string) => ({ topic, trace: { traceparent: '' } });

const waiting = (() => {
  const avro = avroOf({ registry: { register: () => new Promise<never>(() => {}) } });
  const value = avro.serializerOf().serialize(protectedEvent({ a: 1 }), recordOf('orders'));
  return { value: bytesAt(0, value), headers: { ...value.form.headers, eventType: 'T' } };
})();

describe('ids of schemas', () => {
  it('are asked for once, however many ask', async () => {
    const { its, ask, isKnown } = scene();
    assert.equal(isKnown('orders'), false);
    assert.deepEqual(await Promise.all([ask('orders'), ask('orders')]), [7, 7]);
    assert.equal(await ask('orders'), 7);
    assert.equal(isKnown('orders'), true);
    const [[how, { subject, schema }] = ['', { subject: '', schema: '' }], ...more] = its.asked;
    assert.deepEqual([how, subject, more], ['register', 'orders-svc.events.T', []]);
    assert.equal(JSON.parse(schema).name, 'svc.events.T');
    assert.equal(isKnown('payments'), false, 'another subject');
  });

  it('are looked up where svc does not register', async () => {
    const { its, ask } = scene({ autoRegister: false });
    await ask('orders');
    assert.deepEqual(
      its.asked.map(([name]) => name),
      ['lookUp'],
    );
  });

  for (const [what, failure, pauseMs, said] of [
    [
      'a registry that is away is asked again after 1 s',
      away,
      1_000,
      [
        'serde: events without a known schema id wait for it: away',
        'serde: the schema registry answers again',
      ],
    ],
    ['a schema that it refuses is offered again after 10 s', refused, 10_000, ['serde: refused']],
  ] as const)
    it(`${what}, and a line says so once`, async () => {
      const { its, ask } = scene();
      its.answer = () => Promise.reject(failure());
      for (its.nowMs of [0, pauseMs - 1]) await assert.rejects(ask('orders'), failure());
      assert.equal(its.asked.length, 1);
      its.answer = async () => 8;
      its.nowMs = pauseMs;
      assert.equal(await ask('orders'), 8);
      assert.deepEqual(its.said, said);
    });

  it('an event that nobody sends later is refused until its id is known, which is asked for meanwhile', async () => {
    const { its, serialize } = scene({ outbox: { enabled: true, publisherEnabled: false } });
    assert.throws(() => serialize('orders'), { code: 'SVC_SERIALIZE_REGISTRY_AWAY' });
    await new Promise((done) => setImmediate(done));
    assert.equal(its.asked.length, 1);
    assert.equal(serialize('orders').form.encoding, 'latin1');
  });
});
