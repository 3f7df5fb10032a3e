import assert from 'node:assert/strict';
import { createLearner } from '../../src/catalog/learner.ts';
import { type Catalog, type CatalogEvent, type Shape, written } from '../../src/catalog/shape.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import { temporaryFolder } from '../support/folders.ts';
import { shapeOf } from './catalog-file.ts';

const words = new Set(['id', 'total', 'lines', 'count', 'customer', 'mark', 'byUser', 'note']);
const { config } = loadConfig({ cwd: temporaryFolder('learn'), env: { SVC_BROKER_TOPIC: 'orders' } });
const declared = { types: new Map(), unknown: [] };
const catalogWith = (payload: Shape): Catalog =>
  new Map([['T', { from: [], topics: ['orders'], contentType: 'application/json', keys: [], payload }]]);

function learn(
  payloads: readonly unknown[],
  known?: Shape,
  isWord: (name: string) => boolean = (name) => words.has(name),
) {
  const learner = createLearner(
    { config, declared, isWord },
    known === undefined ? new Map() : catalogWith(known),
  );
  for (const payload of payloads) {
    const event = { eventId: '1', eventType: 'T', metadata: {}, payload };
    assert.equal(learner.learn('orders', 'application/json', event), 'learned');
  }
  const { payload } = learner.catalog().get('T') as CatalogEvent;
  return { shape: written(payload, (protection) => ({ protection })), held: learner.heldBack() };
}

describe('what is learned of payloads', () => {
  it('are types, what can be missing or null, and no value', () => {
    const { shape } = learn([
      { id: 1, total: 10, note: 'secret', lines: [{ count: 1 }, { count: 2, note: null }] },
      { id: 'a', total: 1.5, lines: [] },
      { id: 2, total: 3, note: null, lines: [{ count: 3 }] },
    ]);
    assert.deepEqual(shape, {
      type: 'object',
      properties: {
        id: { type: ['string', 'integer'] },
        lines: {
          type: 'array',
          items: {
            type: 'object',
            properties: { count: { type: 'integer' }, note: { type: 'null' } },
            required: ['count'],
          },
        },
        note: { type: ['string', 'null'] },
        total: { type: 'number' },
      },
      required: ['id', 'lines', 'total'],
    });
  });

  it('are marks of what svc protected', () => {
    const { shape } = learn([{ id: 'ENC(v1:k:YWJj)', note: 'HASH(abc=)' }]);
    assert.deepEqual(shape.properties, {
      id: { type: 'string', protection: 'encrypted' },
      note: { type: 'string', protection: 'hashed' },
    });
  });

  it('widens what was known: never narrower, and new names can be missing', () => {
    const known = shapeOf({
      type: 'object',
      properties: { id: { type: 'integer' }, total: { type: 'number' }, old: { type: 'string' } },
      required: ['id', 'old', 'total'],
    });
    const { shape } = learn([{ id: null, total: 1, count: 2 }], known);
    assert.deepEqual(shape, {
      type: 'object',
      properties: {
        count: { type: 'integer' },
        id: { type: ['integer', 'null'] },
        old: { type: 'string' },
        total: { type: 'number' },
      },
      required: ['id', 'total'],
    });
  });

  it('of what is declared and not seen yet are its names, with all that events have as required', () => {
    const known = shapeOf({ type: 'object', properties: { id: {}, shipped: {} } });
    const { shape } = learn([{ id: 1 }], known);
    assert.deepEqual(shape.required, ['id']);
    assert.deepEqual(shape.properties, { id: { type: 'integer' }, shipped: {} });
  });
});

describe('names that are data', () => {
  for (const name of [
    'alice@example.com',
    '550e8400-e29b-41d4-a716-446655440000',
    'u-17',
    'order_23',
    '17',
    '2026-11-25',
    'a1b2c3d4e5',
    'deadbeef01',
    'Anna Schmidt',
    '+49 171 2345678',
    'x'.repeat(65),
    '',
    '__proto__',
    'customer4711',
    'v1w2x3y4',
  ])
    it(`are told by their form: ${name.slice(0, 40)}`, () => {
      const { shape, held } = learn([JSON.parse(`{ ${JSON.stringify(name)}: { "count": 1 } }`)]);
      assert.equal(held, 0);
      assert.deepEqual(shape, {
        type: 'object',
        properties: {},
        required: [],
        additionalProperties: {
          type: 'object',
          properties: { count: { type: 'integer' } },
          required: ['count'],
        },
      });
    });

  for (const name of [
    'id',
    'orderId',
    'line1',
    'address2',
    'sha256',
    'v1w2x3y',
    '$ref',
    '_id',
    'content-type',
    'x'.repeat(64),
  ])
    it(`are not ${name.slice(0, 40)}`, () => {
      const { shape } = learn([{ [name]: 1 }], undefined, () => true);
      assert.deepEqual(shape.properties, { [name]: { type: 'integer' } });
    });

  it('that the configuration spells out are fields', () => {
    const known = shapeOf({ type: 'object', properties: { '2026': {} } });
    assert.deepEqual(learn([{ '2026': 1 }], known).shape.properties, { '2026': { type: 'integer' } });
  });

  it('that no source has wait, untold, until ten objects show that they are fields', () => {
    const rows = (count: number, max: number) =>
      Array.from({ length: count }, (_, at) => ({ id: at, ...(at < max && { placed_at: 'x' }) }));
    const nine = learn(rows(9, 9));
    assert.deepEqual([Object.keys(nine.shape.properties as object), nine.held], [['id'], 1]);
    const ten = learn(rows(10, 5));
    assert.deepEqual([Object.keys(ten.shape.properties as object), ten.held], [['id', 'placed_at'], 0]);
    assert.deepEqual(ten.shape.required, ['id']);
    const few = learn(rows(10, 4));
    assert.deepEqual([Object.keys(few.shape.properties as object), few.held], [['id'], 1]);
  });

  it('of people, as keys of a map, never come into it, not with a word of the sources among them either', () => {
    const people = [
      'anna',
      'berta',
      'carl',
      'dora',
      'emil',
      'fritz',
      'gustav',
      'heinrich',
      'ida',
      'mark',
      'julius',
      'kaufmann',
    ];
    const events = people.map((name, at) => ({ id: at, byUser: { [name]: { count: at } } }));
    assert.equal(learn(events.slice(0, 8)).held, 8);
    const { shape, held } = learn(events);
    assert.equal(held, 0);
    const { byUser } = shape.properties as { byUser: Record<string, unknown> };
    assert.deepEqual(byUser, {
      type: 'object',
      properties: {},
      required: [],
      additionalProperties: {
        type: 'object',
        properties: { count: { type: 'integer' } },
        required: ['count'],
      },
    });
  });

  it('are bounded, as are depth and length', () => {
    const wide = Object.fromEntries(
      Array.from({ length: 5_000 }, (_, at) => [
        `n${'abcdefghij'[at % 10]}${'x'.repeat(1 + (at % 50))}${'y'.repeat(at / 500)}`,
        at,
      ]),
    );
    assert.ok(JSON.stringify(learn([wide, wide]).shape).length < 20_000);
    let deep: object = { id: 1 };
    for (let level = 0; level < 2_000; level++) deep = { customer: deep };
    assert.ok(JSON.stringify(learn([deep]).shape).split('customer').length - 1 <= 40 * 2);
  });

  it('are not told apart without end, however deep maps of maps are', () => {
    const letters = [...'abcdefghijklmnopqrst'];
    const level = (depth: number): object =>
      Object.fromEntries(letters.map((each) => [each, depth === 0 ? 1 : level(depth - 1)]));
    const { shape } = learn([level(3)], undefined, () => true);
    const placesOf = (of: Shape): Shape[] => [
      of,
      ...Object.values(of.properties ?? {}).flatMap(placesOf),
      ...(of.additionalProperties === undefined ? [] : placesOf(of.additionalProperties)),
    ];
    const places = placesOf(shape);
    const names = places.reduce((sum, { properties = {} }) => sum + Object.keys(properties).length, 0);
    assert.equal(names, 5_000);
    assert.ok(places.length <= 10_002, `${places.length} places`);
  });
});
