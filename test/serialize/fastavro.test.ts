import assert from 'node:assert/strict';
import fc from 'fast-check';
import { exactType } from '../../src/serialize/avro/exact-types.ts';
import { copyWithPython } from '../support/avro-readers.ts';
import { requiring } from '../support/requires.ts';

interface Row {
  readonly type: unknown;
  readonly values: fc.Arbitrary<unknown>;
  /** The value as fastavro shows it; left out: only what it writes is looked at. */
  readonly shows?: (value: never) => unknown;
  /** The value as svc reads it. Left out: as it was given. */
  readonly reads?: (value: never) => unknown;
}

const same = (value: unknown): unknown => value;
const logical = (type: unknown, logicalType: string, more: object = {}): object => ({
  type,
  logicalType,
  ...more,
});
const long = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const shown = (value: bigint): unknown =>
  Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
const text = fc.string({ unit: 'grapheme' });
const bytes = fc.uint8Array({ maxLength: 40 }).map((each) => Buffer.from(each));
const fixed = (size: number): fc.Arbitrary<Buffer> =>
  fc.uint8Array({ minLength: size, maxLength: size }).map((each) => Buffer.from(each));
/** As fastavro has dates: from year 1 to 9999. */
const milliseconds = fc.integer({
  min: Date.parse('0001-01-02T00:00:00Z'),
  max: Date.parse('9999-12-30T00:00:00Z'),
});
const moment = (digits: number): fc.Arbitrary<string> =>
  fc.tuple(milliseconds, fc.integer({ min: 0, max: 10 ** (digits - 3) - 1 })).map(([ms, rest]) => {
    const iso = new Date(ms).toISOString();
    return rest === 0 ? iso : `${iso.slice(0, -1)}${String(rest).padStart(digits - 3, '0')}Z`;
  });
const noZone = (values: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  values.map((each) => each.slice(0, -1));
/** As Python writes a datetime. */
const pythonTime = (iso: string): string => {
  const [, day, time, fraction = '', zone] = /^(.+)T(.{8})\.(\d+)(Z?)$/.exec(iso) as RegExpExecArray;
  const digits = fraction.padEnd(6, '0');
  return `${day} ${time}${digits === '000000' ? '' : `.${digits}`}${zone === 'Z' ? '+00:00' : ''}`;
};
const days = fc.integer({ min: -700_000, max: 2_900_000 });
const dayOf = (number: number): string => new Date(number * 86_400_000).toISOString().slice(0, 10);
const decimalText = fc
  .tuple(fc.bigInt({ min: -(10n ** 18n) + 1n, max: 10n ** 18n - 1n }), fc.constantFrom('', 'e0', 'E+0'))
  .map(([unscaled, exponent]) => {
    const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(5, '0');
    return `${unscaled < 0n ? '-' : ''}${digits.slice(0, -4)}.${digits.slice(-4)}${exponent}`;
  });
const plainDecimal = (value: string): string => value.replace(/e.*$/i, '');
const decimalValue = (value: string): string => plainDecimal(value).replace(/^-(?=[0.]+$)/, '');
const record = (name: string, field: string): object => ({
  type: 'record',
  name,
  fields: [{ name: field, type: 'int' }],
});
const buffers = (value: Buffer): unknown => value;

const rows: Readonly<Record<string, Row>> = {
  null: { type: 'null', values: fc.constant(null), shows: same },
  boolean: { type: 'boolean', values: fc.boolean(), shows: same },
  int: { type: 'int', values: fc.integer(), shows: same },
  'long of a number': {
    type: 'long',
    values: fc.maxSafeInteger().filter((value) => Math.abs(value) < 2 ** 53 - 1),
    shows: same,
  },
  'long of a BigInt': { type: 'long', values: long, reads: shown },
  float: { type: 'float', values: fc.float({ noNaN: true, noDefaultInfinity: true }), shows: same },
  double: { type: 'double', values: fc.double({ noNaN: true, noDefaultInfinity: true }), shows: same },
  'double that is not finite': { type: 'double', values: fc.constantFrom(Number.NaN, Infinity, -Infinity) },
  string: { type: 'string', values: text, shows: same },
  bytes: { type: 'bytes', values: bytes, reads: buffers },
  fixed: { type: { type: 'fixed', name: 'F', size: 7 }, values: fixed(7), reads: buffers },
  duration: {
    type: logical('fixed', 'duration', { name: 'D', size: 12 }),
    values: fixed(12),
    reads: buffers,
  },
  enum: {
    type: { type: 'enum', name: 'E', symbols: ['A', 'B', 'C'] },
    values: fc.constantFrom('A', 'B', 'C'),
    shows: same,
  },
  array: { type: { type: 'array', items: 'long' }, values: fc.array(fc.integer()), shows: same },
  map: {
    type: { type: 'map', values: 'string' },
    values: fc.dictionary(text, text, { noNullPrototype: true }),
    shows: same,
  },
  'decimal in bytes': {
    type: logical('bytes', 'decimal', { precision: 18, scale: 4 }),
    values: decimalText,
    reads: decimalValue,
  },
  'decimal in fixed': {
    type: logical('fixed', 'decimal', { name: 'X', size: 9, precision: 18, scale: 4 }),
    values: decimalText,
    reads: decimalValue,
  },
  date: { type: logical('int', 'date'), values: days.map(dayOf), shows: same },
  'time-millis': {
    type: logical('int', 'time-millis'),
    values: moment(3).map((each) => each.slice(11, 23)),
    shows: (value: string) => pythonTime(`0T${value}`).slice(2),
  },
  'time-micros': {
    type: logical('long', 'time-micros'),
    values: moment(6).map((each) => each.slice(11, -1).padEnd(15, '0')),
    shows: (value: string) => pythonTime(`0T${value}`).slice(2),
  },
  'timestamp-millis': { type: logical('long', 'timestamp-millis'), values: moment(3), shows: pythonTime },
  'timestamp-micros': { type: logical('long', 'timestamp-micros'), values: moment(6), shows: pythonTime },
  'timestamp-nanos': {
    type: logical('long', 'timestamp-nanos'),
    values: moment(9).filter((each) => each >= '1700' && each < '2200'),
    reads: (value: string) => value.replace(/(\.\d{6})000Z$/, '$1Z'),
  },
  'local-timestamp-millis': {
    type: logical('long', 'local-timestamp-millis'),
    values: noZone(moment(3)),
    shows: pythonTime,
  },
  'local-timestamp-micros': {
    type: logical('long', 'local-timestamp-micros'),
    values: noZone(moment(6)),
    shows: pythonTime,
  },
  uuid: { type: logical('string', 'uuid'), values: fc.uuid(), shows: same },
  'uuid in fixed': { type: logical('fixed', 'uuid', { name: 'U', size: 16 }), values: fc.uuid() },
  'nullable time': {
    type: ['null', logical('long', 'timestamp-micros')],
    values: fc.option(moment(6)),
    shows: (value: string | null) => value && pythonTime(value),
  },
  'union of many': {
    type: [
      'null',
      'boolean',
      'int',
      'double',
      'string',
      'bytes',
      { type: 'array', items: ['string', 'long'] },
    ],
    values: fc.oneof(
      fc.constant(null),
      fc.boolean(),
      fc.integer(),
      fc.constant(0.5),
      text,
      bytes,
      fc.array(fc.oneof(text, fc.integer())),
    ),
  },
  'several records': {
    type: [record('R1', 'v'), record('R2', 'w')],
    values: fc.integer().chain((v) => fc.constantFrom({ R1: { v } }, { R2: { w: v } })),
  },
  'a record in itself': {
    type: {
      type: 'record',
      name: 'Tree',
      aliases: ['Old'],
      fields: [
        { name: 'v', type: 'long', aliases: ['was'] },
        { name: 'next', type: ['null', 'Tree'], default: null },
      ],
    },
    values: fc
      .array(fc.integer(), { minLength: 1 })
      .map((list) => list.reduce<unknown>((next, v) => ({ v, next }), null)),
    shows: same,
  },
};

const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, function (this: Record<string, unknown>, key: string, each: unknown) {
      const given = this[key];
      if (Buffer.isBuffer(given)) return `bytes ${given.toString('hex')}`;
      return typeof each === 'number' && !Number.isFinite(each) ? `number ${each}` : each;
    }),
  );

requiring(['fastavro'], 'Avro for Python', function () {
  this.timeout(120_000);

  for (const [what, { type, values, shows, reads = same }] of Object.entries(rows)) {
    it(`reads what svc writes, and writes what svc reads, as the same value: ${what}`, async () => {
      const schema = {
        type: 'record',
        name: 'P',
        fields: [
          { name: 'a', type },
          { name: 'z', type: 'int' },
        ],
      };
      const exact = exactType(schema);
      const given = fc.sample(values, { numRuns: 100, seed: 49 });
      const written = given.map((value) => ({
        schema: JSON.stringify(schema),
        body: exact.toBuffer({ a: value, z: 1 }),
      }));
      const copies = await copyWithPython(written);
      for (const [index, { record: copy, body }] of copies.entries()) {
        const value = given[index] as never;
        if (shows !== undefined) assert.deepEqual(copy.a, plain(shows(value)));
        assert.deepEqual(body.toString('hex'), written[index]?.body.toString('hex'));
        assert.deepEqual(plain((exact.fromBuffer(body) as { a: unknown }).a), plain(reads(value)));
      }
    });
  }
});
