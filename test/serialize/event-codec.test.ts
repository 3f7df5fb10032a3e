import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createEnvelopes } from '../../src/envelope/envelope.ts';
import { NativeValue, ownText } from '../../src/protect/own-text.ts';
import { type AvroSchema, recordName } from '../../src/serialize/avro/avro.ts';
import { avroConfig, avroOf, bytesAt, protectedEvent } from './avro-of.ts';

const atMs = Date.UTC(2026, 10, 24);
const orders = { topic: 'orders', trace: { traceparent: '' } };

/** As the walk hands on what JSON has not. */
function native(value: unknown): unknown {
  if (typeof value === 'bigint') return new NativeValue(String(value), 'bigint');
  if (Buffer.isBuffer(value)) return new NativeValue(value.toString('base64'), 'bytes');
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, native(each)]));
}

/** @param walked the payload, as the walk hands it on */
async function passedThrough(
  payload: unknown,
  schema?: AvroSchema,
  walked = native(payload),
  sealed: readonly string[] = [],
): Promise<unknown> {
  const id = Promise.withResolvers<number>();
  const avro = avroOf({ config: avroConfig({ T: schema }), registry: { register: () => id.promise } });
  const serializer = avro.serializerOf();
  const event = protectedEvent(walked, { sealed });
  const waiting = serializer.serialize(event, orders);
  assert.equal(waiting.form.encoding, 'utf8');
  id.resolve(7);
  const headers = { ...waiting.form.headers, eventType: 'T' };
  const { value } = await avro.encode('orders', { value: bytesAt(atMs, waiting), headers });
  const known = serializer.serialize(event, orders);
  assert.equal(known.form.encoding, 'latin1');
  assert.deepEqual(bytesAt(atMs, known), value, 'the same when it had to wait for the id of its schema');
  const read = known.form.toJson?.(value) as { payload: unknown } | undefined;
  return JSON.parse(JSON.stringify(read?.payload));
}

const record = (...fields: [string, AvroSchema][]): AvroSchema => ({
  type: 'record',
  name: 'P',
  fields: fields.map(([name, type]) => ({ name, type })),
});

describe('events as records of Avro', () => {
  it('carry any payload as JSON text, however large', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (value) => {
        assert.deepEqual(await passedThrough(value), JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: 200 },
    );
    const large = { text: 'é漢😀'.repeat(50_000) };
    assert.deepEqual(await passedThrough(large), large);
  });

  it('write times as Avro does, before 1970 as well', async () => {
    const avro = avroOf({ registry: { register: async () => 2 ** 32 - 1 } });
    avro.prepare('T', 'orders');
    await new Promise(setImmediate);
    const value = avro.serializerOf().serialize(protectedEvent({}), orders);
    const bytes = (ms: number) => [...Buffer.from(value.form.publishedAt(ms), 'latin1')];
    assert.deepEqual(bytes(0), [0]);
    assert.deepEqual(bytes(-1), [1]);
    assert.deepEqual(bytes(1), [2]);
    assert.deepEqual(bytes(63), [126]);
    assert.deepEqual(bytes(64), [128, 1]);
    assert.deepEqual(bytes(-65), [129, 1]);
    for (const ms of [Date.UTC(2026, 10, 24, 1, 2, 3, 4), 2 ** 52 - 1, -(2 ** 52)]) {
      const zigzag = (BigInt(ms) << 1n) ^ (BigInt(ms) >> 63n);
      const read = bytes(ms).reduceRight((sum, byte) => (sum << 7n) | BigInt(byte & 0x7f), 0n);
      assert.equal(read, zigzag);
    }
    assert.deepEqual([...bytesAt(atMs, value).subarray(0, 5)], [0, 255, 255, 255, 255]);
  });

  it('have names that Avro allows', () => {
    assert.equal(recordName('order.created'), 'svc.events.order_created');
    assert.equal(recordName('2nd'), 'svc.events._2nd');
    assert.equal(recordName(''), 'svc.events._');
  });

  const decimal = { type: 'bytes', logicalType: 'decimal', precision: 5, scale: 2 };
  const fixed = { ...decimal, type: 'fixed', name: 'F', size: 2 };
  const micros = { type: 'long', logicalType: 'timestamp-micros' };
  const uuid = '6ba7b810-9dad-11d1-80b4-00c04fd430c8';
  const recordOf = (name: string, type: AvroSchema): AvroSchema => ({
    type: 'record',
    name,
    fields: [{ name: 'v', type }],
  });
  const cases: [what: string, type: AvroSchema, given: unknown, read: unknown][] = [
    [
      'a time as text',
      { type: 'long', logicalType: 'timestamp-millis' },
      '2026-11-24T01:02:03.004Z',
      '2026-11-24T01:02:03.004Z',
    ],
    ['a time as number', { type: 'long', logicalType: 'timestamp-millis' }, -1, '1969-12-31T23:59:59.999Z'],
    [
      'microseconds',
      { type: 'long', logicalType: 'timestamp-micros' },
      '2026-11-24T01:02:03.004Z',
      '2026-11-24T01:02:03.004Z',
    ],
    ['a day', { type: 'int', logicalType: 'date' }, '1969-12-31', '1969-12-31'],
    ['a time of day', { type: 'int', logicalType: 'time-millis' }, '23:59:59.9', '23:59:59.900'],
    [
      'a time of day in microseconds',
      { type: 'long', logicalType: 'time-micros' },
      '00:00',
      '00:00:00.000000',
    ],
    ['the largest decimal', decimal, '999.99', '999.99'],
    ['the smallest decimal', decimal, -999.99, '-999.99'],
    ['zeros behind a decimal', decimal, '1.5000', '1.50'],
    ['the largest fixed decimal', fixed, '327.67', '327.67'],
    ['the smallest fixed decimal', fixed, '-327.68', '-327.68'],
    ['a union', ['null', 'string', decimal], null, null],
    ['the largest long', 'long', 2 ** 53 - 2, 2 ** 53 - 2],
    ['a uuid', { type: 'string', logicalType: 'uuid' }, uuid, uuid],
    ['a uuid in bytes', { type: 'fixed', name: 'U', size: 16, logicalType: 'uuid' }, uuid, uuid],
    ['microseconds of text', micros, '2026-01-01T00:00:00.123456Z', '2026-01-01T00:00:00.123456Z'],
    ['microseconds with an offset', micros, '2026-01-01T02:30:00.1+02:30', '2026-01-01T00:00:00.100Z'],
    ['microseconds of a number', micros, 1767225600123456, '2026-01-01T00:00:00.123456Z'],
    [
      'nanoseconds',
      { ...micros, logicalType: 'timestamp-nanos' },
      '2026-01-01T00:00:00.123456789Z',
      '2026-01-01T00:00:00.123456789Z',
    ],
    [
      'a local time',
      { ...micros, logicalType: 'local-timestamp-micros' },
      '2026-01-01T00:00:00.5',
      '2026-01-01T00:00:00.500',
    ],
    ['a day far away', { type: 'int', logicalType: 'date' }, '-001000-02-28', '-001000-02-28'],
    ['the last day', { type: 'int', logicalType: 'date' }, 2 ** 31 - 1, '+5881580-07-11'],
    ['a decimal with an exponent', decimal, '1.25e2', '125.00'],
    ['a decimal that is a small number', { ...decimal, precision: 12, scale: 9 }, 1e-7, '0.000000100'],
    ['a long below -2^52', 'long', -4503599627370497, -4503599627370497],
    ['the smallest long of a BigInt', 'long', -(2n ** 63n), String(-(2n ** 63n))],
    ['the largest long of a BigInt', 'long', 2n ** 63n - 1n, String(2n ** 63n - 1n)],
    ['a small long of a BigInt', 'long', -5n, -5],
    [
      'bytes among text',
      ['null', 'bytes', 'string'],
      Buffer.from([0, 255]),
      { type: 'Buffer', data: [0, 255] },
    ],
    ['text among bytes', ['null', 'bytes', 'string'], 'AP8=', 'AP8='],
    ['a fixed', { type: 'fixed', name: 'G', size: 2 }, Buffer.from([1, 2]), { type: 'Buffer', data: [1, 2] }],
    [
      'a duration',
      { type: 'fixed', name: 'D', size: 12, logicalType: 'duration' },
      Buffer.alloc(12, 1),
      { type: 'Buffer', data: Array(12).fill(1) },
    ],
    ['a whole number among numbers', ['null', 'int', 'double'], 7, 7],
    ['a fraction among numbers', ['null', 'int', 'float', 'double'], 0.1, 0.1],
    ['a symbol among texts', ['null', { type: 'enum', name: 'S', symbols: ['A'] }, 'string'], 'B', 'B'],
    ['a nullable time', ['null', micros], '2026-01-01T00:00:00.123456Z', '2026-01-01T00:00:00.123456Z'],
    [
      'one of several records',
      ['null', recordOf('R1', 'int'), recordOf('R2', 'int')],
      { 'svc.events.R2': { v: 1 } },
      { 'svc.events.R2': { v: 1 } },
    ],
    [
      'a map with any key',
      { type: 'map', values: 'int' },
      JSON.parse('{"__proto__":1,"":2}'),
      JSON.parse('{"__proto__":1,"":2}'),
    ],
    ['bytes', 'bytes', Buffer.from([0, 255]), { type: 'Buffer', data: [0, 255] }],
    ['an enum', { type: 'enum', name: 'E', symbols: ['A', 'B'] }, 'B', 'B'],
  ];
  for (const [what, type, given, read] of cases)
    it(`take ${what}`, async () => {
      assert.deepEqual(await passedThrough({ a: given }, record(['a', type])), { a: read });
    });

  const misfits: [what: string, type: AvroSchema, given: unknown, says: string][] = [
    ['one digit too many', decimal, '1000.00', 'payload.a is no decimal: it has more than 5 digits'],
    [
      'a decimal that would be rounded',
      decimal,
      '0.001',
      'payload.a is no decimal: it has more than 2 digits after the point',
    ],
    ['a decimal of too many bytes', fixed, '327.68', 'payload.a is no decimal: it does not fit in 2 bytes'],
    ['a decimal beyond its digits', decimal, '1e3', 'payload.a is no decimal: it has more than 5 digits'],
    ['a decimal that is none', decimal, '1.2.3', 'payload.a is no decimal'],
    [
      '30 February',
      { type: 'int', logicalType: 'date' },
      '2026-02-30',
      'payload.a is no date: there is no such day',
    ],
    [
      '30 February, in a union',
      ['null', { type: 'int', logicalType: 'date' }],
      '2026-02-30',
      'payload.a is no date: there is no such day',
    ],
    [
      "25 o'clock",
      { type: 'int', logicalType: 'time-millis' },
      '25:00',
      'payload.a is no time-millis: there is no such time of day',
    ],
    [
      'a time of day beyond the day',
      { type: 'int', logicalType: 'time-millis' },
      86_400_000,
      'payload.a is no time-millis: there is no such time of day',
    ],
    [
      'a time with digits that are lost',
      micros,
      '2026-01-01T00:00:00.1234567Z',
      'payload.a is no timestamp-micros: it has more than 6 fractional digits of a second',
    ],
    [
      'a time of no zone',
      micros,
      '2026-01-01T00:00:00',
      'payload.a is no timestamp-micros: it needs a zone, such as Z',
    ],
    [
      'a local time of a zone',
      { ...micros, logicalType: 'local-timestamp-micros' },
      '2026-01-01T00:00:00+01:00',
      'payload.a is no local-timestamp-micros: it has a zone, but a local time has no zone',
    ],
    [
      'a text that is no UUID',
      { type: 'string', logicalType: 'uuid' },
      'hunter2',
      'payload.a is no uuid: it does not have this form',
    ],
    ['a float that is too large', 'float', 1e39, 'payload.a is no float: it is too large for one'],
    [
      'half of a surrogate pair',
      'string',
      '\ud83d',
      'payload.a is no string: it holds half of a surrogate pair, which UTF-8 cannot encode',
    ],
    [
      'half of a surrogate pair as key',
      { type: 'map', values: 'int' },
      { '\ud83d': 1 },
      'payload.a is no map',
    ],
    ['a BigInt beyond 64 bits', 'long', 2n ** 63n, 'payload.a is no long'],
    [
      'a fixed of another size',
      { type: 'fixed', name: 'G', size: 2 },
      Buffer.alloc(3),
      'payload.a is no fixed: it has another size',
    ],
    [
      'a time that is none',
      { type: 'long', logicalType: 'timestamp-millis' },
      'hunter2',
      'payload.a is no timestamp-millis',
    ],
    ['a day with a half', { type: 'int', logicalType: 'date' }, 0.5, 'payload.a is no date'],
    [
      'a long that is not safe',
      'long',
      2 ** 53 - 1,
      'payload.a is no long: a number beyond 2^53 - 2 is not exact: use a BigInt',
    ],
    ['an int of 33 bits', 'int', 2 ** 31, 'payload.a is no int'],
    ['text for bytes', 'bytes', 'hunter2', 'payload.a is no bytes'],
    [
      'a symbol that is not there',
      { type: 'enum', name: 'E', symbols: ['A'] },
      'hunter2',
      'payload.a is no enum',
    ],
    [
      'a name that all objects have as a symbol',
      { type: 'enum', name: 'E', symbols: ['A'] },
      'constructor',
      'payload.a is no enum',
    ],
    [
      'a list of one symbol as a symbol',
      { type: 'enum', name: 'E', symbols: ['A'] },
      ['A'],
      'payload.a is no enum',
    ],
    ['a list for a text that may be null', ['null', 'string'], ['hunter2'], 'payload.a is no union'],
    ['a number for a text that may be null', ['null', 'string'], 1, 'payload.a is no union'],
    ['what is in no branch', ['null', 'int'], 'hunter2', 'payload.a is no union'],
    ['a value in a map', { type: 'map', values: 'int' }, { hunter2: 'x' }, 'payload.a.* is no int'],
    [
      'an element',
      { type: 'array', items: { ...(record(['b', 'int']) as object), name: 'Q' } },
      [{ b: 1 }, { b: 'hunter2' }],
      'payload.a[1].b is no int',
    ],
    ['what is missing', 'string', undefined, 'payload.a is no string'],
  ];
  for (const [what, type, given, says] of misfits)
    it(`refuse ${what}, with the path and without the value`, async () => {
      const message = `the payload does not fit its Avro schema: ${says}`;
      await assert.rejects(passedThrough({ a: given }, record(['a', type])), {
        code: 'SVC_SERIALIZE_SCHEMA_MISFIT',
        message,
      });
    });

  it('hold texts of any length and kind, as they were', async () => {
    const parts = ['a', 'ü', '漢', '😀', '\0'];
    const type = record(['v', ['null', 'string']], ['map', { type: 'map', values: 'string' }]);
    for (const part of parts)
      for (const length of [0, 1, 15, 16, 46, 47, 48, 49, 63, 64, 65, 8_191, 8_192, 70_000]) {
        const v = `${'x'.repeat(Math.max(0, length - part.length))}${part}`;
        const payload = { v, map: { [v]: v } };
        assert.deepEqual(await passedThrough(payload, type), payload);
      }
  });

  it('hold the times of JSON, each day of a leap year and of others', async () => {
    const type = record(['at', { type: 'long', logicalType: 'timestamp-millis' }]);
    for (const year of ['0001', '1900', '1969', '1970', '2000', '2026', '2028', '9999'])
      for (let at = Date.parse(`${year}-01-01T23:59:59.999Z`), day = 0; day < 366; day += 5) {
        const payload = { at: new Date(at + day * 86_400_000).toISOString() };
        if (payload.at.length === 24) assert.deepEqual(await passedThrough(payload, type), payload);
      }
  });

  it('have the metadata of their own request, whatever that of the one before', async () => {
    const avro = avroOf();
    avro.prepare('T', 'orders');
    await new Promise(setImmediate);
    const serializer = avro.serializerOf();
    const source = { serviceName: 'orders', serviceVersion: '1', hostname: 'ü' };
    const origin = {
      ...{ userId: 'u-1', sessionId: null, correlationId: 'c', clientIp: '10.0.0.1' },
      tags: { a: 'b' },
    };
    const trace = { traceId: 'ab', spanId: 'cd', parentSpanId: null };
    const first = { source, origin, trace };
    const others = [
      first,
      { ...first, source: { ...source, serviceName: 'other' } },
      { ...first, origin: { ...origin, userId: 'u-2' } },
      { ...first, trace: { ...trace, spanId: 'ef' } },
      { ...first, trace: { traceId: 'Zoë', spanId: null, parentSpanId: '' } },
      { ...first, origin: { ...origin, correlationId: null } },
      { ...first, origin: { ...origin, clientIp: null } },
      { ...first, origin: { ...origin, tags: { a: 'c' } } },
      first,
    ];
    for (const [index, { source, origin, trace }] of others.entries())
      for (const severity of ['INFO', 'ERROR'] as const) {
        const eventId = index % 2 === 0 ? String(index) : 'Zoë';
        const payload = { index };
        const build = createEnvelopes({ source, readOrigin: () => origin });
        const envelope = build(eventId, { eventType: 'T', severity, payload }, trace, 0);
        const value = serializer.serialize(protectedEvent(payload, { ...envelope, payload }), orders);
        const read = value.form.toJson?.(bytesAt(atMs, value)) as object;
        const { userId, sessionId, ...rest } = origin;
        const metadata = { source, actor: { userId, sessionId }, trace, ...rest };
        assert.partialDeepStrictEqual(read, { eventId, severity, metadata, payload });
      }
    const half = protectedEvent({}, { origin: { ...origin, userId: '\ud83d' } });
    for (let round = 0; round < 2; round++)
      assert.throws(() => serializer.serialize(half, orders), {
        code: 'SVC_SERIALIZE_SCHEMA_MISFIT',
        message: /metadata\.actor\.userId is no string/,
      });
  });

  describe('of a payload that JSON would change', () => {
    /** A payload of any depth. */
    const any = record([
      'v',
      [
        ...['null', 'boolean', 'double', 'string'],
        { type: 'array', items: ['null', 'P'] },
        { type: 'map', values: ['null', 'P'] },
      ],
    ]);
    const asJson = (value: unknown, sealed: readonly string[] = []): unknown =>
      JSON.parse(
        JSON.stringify(value, (_, each: unknown) =>
          typeof each === 'string' && !sealed.includes(each) ? ownText.mark(each) : each,
        ),
      );
    const check = async (value: unknown, sealed: readonly string[] = []): Promise<void> =>
      assert.deepEqual(await passedThrough(value, any, value, sealed), asJson(value, sealed));

    it('are the same as JSON would give it back', async () => {
      const { payload } = fc.letrec((tie) => ({
        payload: fc.record({ v: tie('value') }),
        value: fc.oneof(
          { depthSize: 'small' },
          fc.constantFrom<unknown>(null, true, -0, 1.5, 'ENC(x)', '\\ENC(x)', 'HASH(x)'),
          fc.string(),
          fc.double({ noNaN: true, noDefaultInfinity: true }),
          fc.date({ noInvalidDate: true }),
          fc.constantFrom(1, 'a', true).map(Object),
          fc.constantFrom(new Map([['a', 1]]), new Set([1])),
          fc.sparseArray(tie('payload'), { maxLength: 5 }),
          fc.array(fc.option(tie('payload'), { nil: undefined })),
          fc.dictionary(fc.oneof(fc.string(), fc.constantFrom('__proto__', 'rawJSON')), tie('payload')),
          tie('payload').map((v) => ({ toJSON: () => [v] })),
        ),
      }));
      await fc.assert(
        fc.asyncProperty(payload, (value) => check(value)),
        { numRuns: 500 },
      );
    });

    it('with texts of svc beside those that only look so', () =>
      check({ v: [{ v: 'ENC(x)' }, { v: 'ENC(y)' }] }, ['ENC(x)']));

    it('with fields that are left out, and getters of a class', async () => {
      class Line {
        readonly v = 'a';
        get shown(): string {
          return 'not in JSON';
        }
      }
      await check({ v: [new Line()], b: undefined });
    });

    it('with more levels than are copied', async () => {
      let deep: object = { v: 1 };
      for (let level = 0; level < 40; level++) deep = { v: { deep } };
      await check(deep);
    });
  });

  it('may leave out what may be null, and write what has a default', async () => {
    const schema = {
      type: 'record',
      name: 'P',
      fields: [
        { name: 'a', type: ['null', 'string'] },
        { name: 'b', type: 'int', default: 7 },
        {
          name: 'c',
          type: { type: 'array', items: { ...(record(['d', ['null', 'int']]) as object), name: 'Q' } },
        },
      ],
    };
    assert.deepEqual(await passedThrough({ c: [{}] }, schema), { a: null, b: 7, c: [{ d: null }] });
  });
});
