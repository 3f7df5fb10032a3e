import assert from 'node:assert/strict';
import { type Catalog, type CatalogEvent, changesBetween } from '../../src/catalog/shape.ts';
import { shapeOf } from './catalog-file.ts';

const event = (payload: object, more: Partial<CatalogEvent> = {}): CatalogEvent => ({
  ...{ from: [], topics: ['a.v1'], contentType: 'application/json', keys: [] },
  ...{ payload: shapeOf(payload), ...more },
});
const one = (each: CatalogEvent): Catalog => new Map([['T', each]]);
const linesOf = (before: Catalog, after: Catalog) =>
  changesBetween(before, after).map(({ path, says, breaks }) => `${breaks ? '!' : '+'} ${path} ${says}`);
const between = (before: object, after: object) => linesOf(one(event(before)), one(event(after)));
const object = (properties: object, required?: string[]) => ({
  type: 'object',
  properties,
  ...(required && { required }),
});

describe('changes of a catalog', () => {
  const cases: [what: string, before: object, after: object, lines: string[]][] = [
    ['nothing', object({ a: { type: 'string' } }, ['a']), object({ a: { type: 'string' } }, ['a']), []],
    ['a field less', object({ a: {}, b: {} }), object({ a: {} }), ['! payload.b is removed']],
    ['a field more', object({ a: {} }, ['a']), object({ a: {}, b: {} }, ['a']), ['+ payload.b is new']],
    [
      'a field more that readers cannot do without',
      object({ a: {} }, ['a']),
      object({ a: {}, b: {} }, ['a', 'b']),
      ['! payload.b is new and required, but older events do not have it'],
    ],
    [
      'what was always there',
      object({ a: {} }, ['a']),
      object({ a: {} }, []),
      ['! payload.a can now be missing'],
    ],
    [
      'what could be missing',
      object({ a: {} }, []),
      object({ a: {} }, ['a']),
      ['+ payload.a is always present now'],
    ],
    [
      'the first events',
      object({ a: {} }),
      object({ a: { type: ['string', 'null'] } }, ['a']),
      ['+ payload.a is known now: string or null'],
    ],
    [
      'another type',
      object({ a: { type: 'string' } }),
      object({ a: { type: 'integer' } }),
      ['! payload.a was string, is integer'],
    ],
    [
      'one type more',
      object({ a: { type: 'string' } }),
      object({ a: { type: ['string', 'boolean'] } }),
      ['! payload.a was string, is string or boolean'],
    ],
    [
      'null',
      object({ a: { type: 'string' } }),
      object({ a: { type: ['string', 'null'] } }),
      ['! payload.a can now be null'],
    ],
    [
      'no null',
      object({ a: { type: ['string', 'null'] } }),
      object({ a: { type: 'string' } }),
      ['+ payload.a is string only, was string or null'],
    ],
    [
      'fractions',
      object({ a: { type: 'integer' } }),
      object({ a: { type: 'number' } }),
      ['! payload.a was integer, is number'],
    ],
    [
      'no fractions',
      object({ a: { type: 'number' } }),
      object({ a: { type: 'integer' } }),
      ['+ payload.a is integer only, was number'],
    ],
    [
      'what is not known any more',
      object({ a: { type: 'string' } }),
      object({ a: {} }),
      ['! payload.a was string, and is no longer known'],
    ],
    [
      'items of arrays',
      object({ a: { type: 'array', items: object({ b: { type: 'string' } }, ['b']) } }),
      object({ a: { type: 'array', items: object({ b: { type: 'null' } }, []) } }),
      ['! payload.a[*].b can now be missing', '! payload.a[*].b can now be null'],
    ],
    [
      'values of maps',
      object({ a: { type: 'object', additionalProperties: { type: 'integer' } } }),
      object({ a: { type: 'object', additionalProperties: { type: 'string' } } }),
      ['! payload.a.* was integer, is string'],
    ],
    [
      'encryption',
      object({ a: { type: 'string' } }),
      object({ a: { type: 'string', protection: 'encrypted' } }),
      ['! payload.a is encrypted now'],
    ],
    [
      'no mask',
      object({ a: { type: 'string', protection: 'masked' } }),
      object({ a: { type: 'string' } }),
      ['+ payload.a is no longer masked'],
    ],
    ['odd names', object({ 'a.b "': {} }), object({}), ['! payload["a.b \\""] is removed']],
  ];
  for (const [what, before, after, lines] of cases)
    it(what, () => assert.deepEqual(between(before, after), lines));

  it('of topics, content type and key', () => {
    const with_ = (more: Partial<CatalogEvent>) => one(event({}, more));
    assert.deepEqual(linesOf(with_({}), with_({ topics: ['b.v1'] })), [
      '! topic a.v1 has it no more: it is in b.v1',
    ]);
    assert.deepEqual(linesOf(with_({}), with_({ topics: ['a.v1', 'b.v1'] })), ['+ topic is in b.v1 as well']);
    assert.deepEqual(linesOf(with_({}), with_({ contentType: 'application/avro' })), [
      '! content-type was application/json, is application/avro',
    ]);
    assert.deepEqual(linesOf(with_({}), with_({ keys: ['#result.id'] })), [
      '+ key is made from #result.id, was from the event id: order is kept by key',
    ]);
  });

  it('of schemas of Avro, as a registry sees them', () => {
    const record = (...fields: object[]) =>
      one(event({}, { contentType: 'application/avro', avro: { type: 'record', name: 'P', fields } }));
    const a = { name: 'a', type: 'string' };
    assert.deepEqual(linesOf(record(a), record(a, { name: 'b', type: 'int', default: 0 })), []);
    assert.deepEqual(linesOf(record(a), record(a, { name: 'b', type: 'int' })), [
      '! avro readers with this schema cannot read older events',
    ]);
    assert.deepEqual(linesOf(record(a), record()), ['! avro readers with the old schema cannot read it']);
    assert.deepEqual(linesOf(record(a), record({ ...a, doc: 'a' })), []);
  });
});
