import type { Bench } from '../../scripts/bench.ts';
import { createEnvelopes } from '../../src/envelope/envelope.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { compilePolicy } from '../../src/protect/marks/policy.ts';
import { createProtector } from '../../src/protect/protect.ts';
import { toRecord } from '../../src/publish/main/queue.ts';
import type { AvroSchema } from '../../src/serialize/avro/avro.ts';
import { createCloudEventsSerializer } from '../../src/serialize/cloudevents.ts';
import { jsonSerializer, type Serializer } from '../../src/serialize/serializer.ts';
import { avroConfig, avroOf } from '../serialize/avro-of.ts';
import { measure } from './measure.ts';
import { payload } from './payload.ts';

const eventType = 'ORDER_CREATED';
const record = (name: string, fields: Readonly<Record<string, AvroSchema>>): AvroSchema => ({
  ...{ type: 'record', name },
  fields: Object.entries(fields).map(([field, type]) => ({ name: field, type })),
});
const arrayOf = (items: AvroSchema): AvroSchema => ({ type: 'array', items });

const schema = record('Order', {
  orderId: 'string',
  customer: record('Customer', { id: 'string', name: 'string', email: 'string', phones: arrayOf('string') }),
  address: record('Address', { street: 'string', city: 'string', zip: 'string', country: 'string' }),
  items: arrayOf(record('Item', { sku: 'string', title: 'string', quantity: 'int', price: 'double' })),
  total: 'double',
  currency: 'string',
  note: 'string',
  createdAt: { type: 'long', logicalType: 'timestamp-millis' },
  flags: arrayOf(['null', 'boolean']),
});

class Order {}

async function avro(payloadSchema?: AvroSchema): Promise<Serializer> {
  const { prepare, serializerOf } = avroOf({ config: avroConfig({ [eventType]: payloadSchema }) });
  prepare(eventType, 'orders');
  await new Promise(setImmediate);
  return serializerOf();
}

/** From the call to the bytes of the record: the way that both forms share is in it. */
export const bench: Bench = async (progress) => {
  const source = { serviceName: 'orders', serviceVersion: '1.4.0', hostname: 'orders-7d9f' };
  const origin = { userId: 'u-1', sessionId: 's-1', correlationId: 'c-1', clientIp: '10.0.0.1', tags: null };
  const build = createEnvelopes({ source, readOrigin: () => origin });
  const event = { eventType, severity: 'INFO' } as const;
  const trace = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), parentSpanId: null };
  const policy = compilePolicy([]);
  const protect = createProtector({ policyOf: () => policy, sealer: createSealer({ keys: [], salt: 's' }) });
  const bytesOf =
    (serializer: Serializer, of: object = payload) =>
    (): Buffer => {
      const envelope = protect(build('281474976710656', { ...event, payload: of }, trace, 1_780_000_000_000));
      const value = serializer.serialize(envelope, { topic: 'orders', trace: { traceparent: '' } });
      return toRecord(
        { eventId: '1', eventType, topic: undefined, key: 'k', headers: {}, value },
        1_780_000_000_123,
      ).value;
    };
  const json = bytesOf(jsonSerializer);
  const instance = Object.assign(new Order(), payload);
  const cases: [name: string, run: () => Buffer, json: () => Buffer][] = [
    ['cloudevents-binary', bytesOf(createCloudEventsSerializer({ mode: 'binary', source: '/orders' })), json],
    [
      'cloudevents-structured',
      bytesOf(createCloudEventsSerializer({ mode: 'structured', source: '/orders' })),
      json,
    ],
    ['avro-text', bytesOf(await avro()), json],
    ['avro-typed', bytesOf(await avro(schema)), json],
    // Beside JSON of the same object.
    ['avro-typed-class', bytesOf(await avro(schema), instance), bytesOf(jsonSerializer, instance)],
  ];
  progress(`us per event, Node ${process.version}`);
  return [
    { case: 'json', value: measure(json, json).value, unit: 'us' },
    { case: 'json-bytes', value: json().length, unit: 'bytes' },
    ...cases.flatMap(([name, run, against]) => [
      { case: name, unit: 'us', against: 'json', ...measure(run, against) },
      {
        ...{ case: `${name}-bytes`, value: run().length, unit: 'bytes', against: 'json' },
        ratio: Number((run().length / json().length).toFixed(2)),
      },
    ]),
  ];
};
