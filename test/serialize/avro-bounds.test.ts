import assert from 'node:assert/strict';
import { createDecoder } from '../../src/serialize/avro/avro.ts';
import { exactType } from '../../src/serialize/avro/exact-types.ts';

const maxEmptyItems = 65_536;

/** As Avro writes a long. */
function long(value: number): number[] {
  const bytes: number[] = [];
  let rest = value >= 0 ? value * 2 : -value * 2 - 1;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return [...bytes, rest];
}

const empty = { type: 'record', name: 'Empty', fields: [] };
const array = (items: unknown) => JSON.stringify({ type: 'array', items });

describe('what bytes of Avro say that they hold', function () {
  this.timeout(2_000);

  for (const [what, schema, bytes] of [
    ['100 million times null', array('null'), [...long(100_000_000), 0]],
    ['the same with the size of the block', array('null'), [...long(-100_000_000), 0, 0]],
    ['100 million records without fields', array(empty), [...long(100_000_000), 0]],
    ['4 billion texts that are not there', array('string'), long(4_294_967_296)],
    ['2^52 numbers that are not there', array('int'), long(2 ** 52)],
    ['2^52 entries that are not there', JSON.stringify({ type: 'map', values: 'null' }), long(2 ** 52)],
    [
      'lists in a list',
      array({ type: 'array', items: 'null' }),
      [...long(90), ...Array.from({ length: 90 }, () => [...long(1_000), 0]).flat(), 0],
    ],
  ] as const) {
    it(`is not believed: ${what}`, () => {
      const before = process.memoryUsage().heapUsed;
      assert.throws(() => createDecoder(schema)(Buffer.from(bytes)), { code: 'SVC_SERIALIZE_NOT_AVRO' });
      assert.ok(process.memoryUsage().heapUsed - before < 50_000_000);
    });
  }

  it(`is read up to ${maxEmptyItems} items that take no bytes, and as many others as there are`, () => {
    const nulls = (count: number) =>
      createDecoder(array('null'))(Buffer.from([...long(count), 0])) as unknown[];
    assert.equal(nulls(maxEmptyItems).length, maxEmptyItems);
    assert.equal(nulls(maxEmptyItems).length, maxEmptyItems);
    assert.throws(() => nulls(maxEmptyItems + 1));
    const type = exactType({ type: 'array', items: 'int' });
    const numbers = Array.from({ length: 300_000 }, (_, index) => index % 100);
    assert.deepEqual(type.fromBuffer(type.toBuffer(numbers)), numbers);
  });
});
