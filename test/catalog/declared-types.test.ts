import assert from 'node:assert/strict';
import { declaredTypes, spelledOut } from '../../src/catalog/declared.ts';
import { madeCatalog } from '../../src/catalog/forms.ts';
import { type Shape, written } from '../../src/catalog/shape.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import { writeFiles } from '../e2e/support/run-app.ts';
import { temporaryFolder } from '../support/folders.ts';
import { shapeOf } from './catalog-file.ts';

const shown = (shape: Shape) => ({
  ...written(shape, (protection) => ({ protection })),
  ...(shape.isClosed && { isClosed: true }),
});

describe('what an expression spells out of a payload', () => {
  for (const [expression, shape] of [
    ['#result', {}],
    ['#p0.order', {}],
    ['#a ? { x: 1 } : { y: 2 }', {}],
    ['{ x: 1 }.x', {}],
    ['{}', { type: 'object', properties: { value: { type: 'array' } }, isClosed: true }],
    ['{:}', { type: 'object', properties: {}, isClosed: true }],
    ['{1, 2}', { type: 'object', properties: { value: { type: 'array' } }, isClosed: true }],
    ["'a text'", { type: 'object', properties: { value: { type: 'string' } }, isClosed: true }],
    ['({ a: #x })', { type: 'object', properties: { a: {} }, isClosed: true }],
    [
      "{ id: #result.id, 'a b': #list.![{x: y, z: 1}], n: { deep: {1, 2}, t: 'x', f: 1.5, i: 3, b: true, z: null } }",
      {
        type: 'object',
        properties: {
          'a b': {},
          id: {},
          n: {
            type: 'object',
            properties: {
              b: { type: 'boolean' },
              deep: { type: 'array' },
              f: { type: 'number' },
              i: { type: 'integer' },
              t: { type: 'string' },
              z: { type: 'null' },
            },
          },
        },
        isClosed: true,
      },
    ],
  ] as const)
    it(expression, () => assert.deepEqual(shown(spelledOut(expression)), shape));
});

describe('event types of an application', () => {
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder('catalog');
  });

  const load = (targets: string, more: string, sources: Record<string, string>) => {
    const head = `svc:\n  broker: { topic: orders.v1 }\n${more}`;
    writeFiles(folder, {
      'package.json': '{"name":"shop"}',
      'svc.config.yaml': `${head}${targets}`,
      ...sources,
    });
    return loadConfig({ cwd: folder, env: {} }).config;
  };
  const made = (
    targets: string,
    more = '',
    sources: Record<string, string> = {},
    before: Record<string, object> = {},
  ) => {
    const config = load(targets, more, sources);
    const known = new Map(
      Object.entries(before).map(([type, payload]) => [
        type,
        {
          from: ['src/a.ts#f'],
          topics: ['orders.v1'],
          contentType: 'application/json',
          keys: [],
          payload: shapeOf(payload),
        },
      ]),
    );
    return madeCatalog(declaredTypes(config), config, known);
  };

  it('of two targets has what both publish, and where', () => {
    const catalog = made(`
  targets:
    - { module: ./src/a.ts, function: f, eventType: T, payload: "{ a: 1, both: #x }", key: "#x" }
    - { module: ./src/b.ts, function: f, eventType: T, payload: "{ b: 'y', both: #x }", topic: other.v1 }
`);
    const { from, topics, keys, payload } = catalog.get('T') ?? assert.fail();
    assert.deepEqual([from, topics, keys], [['src/a.ts#f', 'src/b.ts#f'], ['orders.v1', 'other.v1'], ['#x']]);
    assert.deepEqual(shown(payload), {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { type: 'string' }, both: {} },
    });
  });

  it('of two targets keeps what was learned beyond the one that spells it out, for the other does not', () => {
    const learned = {
      type: 'object',
      properties: { a: { type: 'integer' }, more: { type: 'null' } },
      required: ['a'],
    };
    const targets = (second: string) => `
  targets:
    - { module: ./src/a.ts, function: f, eventType: T, payload: "{ a: 1 }" }
    - { module: ./src/b.ts, function: f, eventType: T, payload: "${second}" }
`;
    const namesWith = (second: string) =>
      Object.keys(made(targets(second), '', {}, { T: learned }).get('T')?.payload.properties ?? {});
    assert.deepEqual(namesWith('#result'), ['a', 'more']);
    assert.deepEqual(namesWith('{ b: 1 }'), ['a', 'b']);
  });

  it('forgets a mask whose rule is gone, and no cipher, which events show', () => {
    const target = `  targets: [{ module: ./src/a.ts, function: f, eventType: T, payload: "{ a: #x, b: #x }" }]\n`;
    const text = (protection: string) => ({ type: 'string', protection });
    const before = { type: 'object', properties: { a: text('masked'), b: text('encrypted') }, required: [] };
    const { properties } = made(target, '', {}, { T: before }).get('T')?.payload ?? assert.fail();
    assert.deepEqual(properties, {
      a: { type: ['string'] },
      b: { type: ['string'], protection: 'encrypted' },
    });
  });

  it('keeps what was learned for the names that are published still', () => {
    const learned = {
      type: 'object',
      properties: {
        a: { type: 'integer' },
        gone: { type: 'string' },
        n: { type: 'object', properties: { x: { type: 'null' }, gone: {} }, required: ['gone', 'x'] },
      },
      required: ['a', 'gone'],
      additionalProperties: { type: 'string' },
    };
    const target = (payload: string) =>
      `  targets: [{ module: ./src/a.ts, function: f, eventType: T, payload: "${payload}" }]\n`;
    const closed = made(target('{ a: #x, fresh: #y, n: { x: #z } }'), '', {}, { T: learned }).get('T');
    assert.deepEqual(shown(closed?.payload ?? assert.fail()), {
      type: 'object',
      properties: {
        a: { type: 'integer' },
        fresh: {},
        n: { type: 'object', properties: { x: { type: 'null' } }, required: ['x'] },
      },
      required: ['a'],
    });
    const open = made(target('#result'), '', {}, { T: learned }).get('T');
    assert.deepEqual(shown(open?.payload ?? assert.fail()), learned);
  });

  it('shows what rules make of fields: text, or nothing at all', () => {
    const target = `  targets: [{ module: ./src/a.ts, function: f, eventType: T, payload: "{ id: #x, ssn: #s, mail: 1, card: { pan: #p } }", pii: { ssn: { strategy: EXCLUDE } } }]\n`;
    const rules =
      '  pii: { fields: [mail, { path: card, strategy: ENCRYPT }], crypto: { default-key: 00000000000000000000000000000000 } }\n';
    const { payload } =
      made(
        target,
        rules,
        {},
        { T: { type: 'object', properties: { ssn: { type: 'string' } }, required: ['ssn'] } },
      ).get('T') ?? assert.fail();
    assert.deepEqual(shown(payload), {
      type: 'object',
      properties: {
        card: { type: 'object', properties: { pan: { type: 'string', protection: 'encrypted' } } },
        id: {},
        mail: { type: 'string', protection: 'masked' },
      },
      required: [],
    });
  });

  it('reads functions of a configuration that is code', () => {
    const code = `export default { svc: { broker: { topic: 'orders.v1' }, targets: [
      { module: './src/a.js', function: 'f', eventType: 'T', payload: ({ result }) => ({ id: result.id, by: 'x' }) },
      { module: './src/a.js', function: 'g', eventType: 'U', payload({ result }) { return { id: result.id }; } },
      { module: './src/a.js', function: 'h', eventType: 'V', payload: (call) => call.result },
    ] } };`;
    writeFiles(folder, { 'package.json': '{"name":"shop"}', 'svc.config.mjs': code });
    const { types } = declaredTypes(loadConfig({ cwd: folder, env: {} }).config);
    assert.deepEqual(
      [...types.values()].map(({ payload }) => shown(payload)),
      [{ type: 'object', properties: { by: { type: 'string' }, id: {} }, isClosed: true }, {}, {}],
    );
  });

  it('shows what rules in code make of fields, where they are written out', () => {
    const sources = {
      'src/a.ts': `
        import { publishEvent } from 'svc';
        export const f = publishEvent(
          { eventType: 'T', pii: { mail: 'EMAIL', ssn: { strategy: 'EXCLUDE' }, '**.pan': { strategy: 'HASH' } }, payload: ({ result }) => ({ id: result.id, mail: 1, ssn: 2, cards: { pan: 3 } }) },
          () => 1,
        );
        export const g = publishEvent({ eventType: 'U', pii: rules(), payload: ({ result }) => ({ mail: 'x' }) }, () => 1);`,
    };
    const catalog = made('', '', sources);
    assert.deepEqual(shown(catalog.get('T')?.payload ?? assert.fail()), {
      type: 'object',
      properties: {
        cards: { type: 'object', properties: { pan: { type: 'string', protection: 'hashed' } } },
        id: {},
        mail: { type: 'string', protection: 'masked' },
      },
    });
    assert.deepEqual(catalog.get('U')?.payload.properties, { mail: { type: ['string'] } });
  });

  it('takes the payload of a schema of Avro that the configuration names', () => {
    const target = `  targets: [{ module: ./src/a.ts, function: f, eventType: T, payload: "{ id: #x }" }]\n`;
    const avro = {
      type: 'record',
      name: 'Order',
      fields: [
        { name: 'id', type: 'long' },
        { name: 'at', type: { type: 'long', logicalType: 'timestamp-millis' } },
        { name: 'note', type: ['null', 'string'], default: null },
        { name: 'total', type: { type: 'bytes', logicalType: 'decimal', precision: 9, scale: 2 } },
        {
          name: 'lines',
          type: {
            type: 'array',
            items: { type: 'record', name: 'Line', fields: [{ name: 'of', type: ['null', 'Line'] }] },
          },
        },
        { name: 'rates', type: { type: 'map', values: 'double' } },
        { name: 'raw', type: 'bytes' },
      ],
    };
    const catalog = made(
      target,
      '  serde: { type: AVRO, schema-registry-url: "http://localhost:1", schemas: { T: order.avsc } }\n',
      {
        'order.avsc': JSON.stringify(avro),
      },
    );
    const { payload, contentType, avro: kept } = catalog.get('T') ?? assert.fail();
    assert.deepEqual([contentType, kept], ['application/avro', avro]);
    const { properties = {}, required } = payload;
    assert.deepEqual(required, ['at', 'id', 'lines', 'note', 'rates', 'raw', 'total']);
    const types = Object.entries(properties).map(([name, { type }]) => [name, type?.join('|')]);
    assert.deepEqual(types, [
      ['at', 'string'],
      ['id', 'integer'],
      ['lines', 'array'],
      ['note', 'string|null'],
      ['rates', 'object'],
      ['raw', undefined],
      ['total', 'string'],
    ]);
  });

  it('are found in code in every form of a call, and what is not svc is not', () => {
    const config = load('', '', {
      'src/a.ts': `
        import * as svc from 'svc';
        import { publish as send } from 'svc';
        import { publish } from './bus';
        enum Types { sent = 'SENT' }
        publish({ a: 1 }, { eventType: 'NOT_OURS' });
        send({ a: 1 }, { eventType: Types.sent, topic: 'sent.v1' });
        svc.publish({ b: 1 });
        svc.publish(thing);
        svc.outbox.save(tx, [{ eventType: 'S1', payload: { c: 1, ...rest } }, { eventType: \`S2\`, payload }]);
        export const f = svc.publishEvent({ payload: ({ args: [a] }) => { return { x: a, y: { z: 'q' } }; }, topic: chosen() }, async function named() {});
        export class K { @svc.PublishEvent({ ...shared }) m() {} @svc.PublishEvent({ eventType: made() }) n() {} }
        const { outbox } = { outbox: { save() {} } };`,
      'test/a.ts': "import { publish } from 'svc'; publish({}, { eventType: 'OF_A_TEST' });",
      'src/a.spec.ts': "import { publish } from 'svc'; publish({}, { eventType: 'OF_A_TEST' });",
      'src/b.cjs':
        "const { publish: p, outbox } = require('svc'); p({ d: 1 }, { eventType: 'P' }); outbox.save(tx, { eventType: 'O', payload: { e: null } });",
    });
    const { types, unknown } = declaredTypes(config);
    const found = Object.fromEntries(
      [...types].map(([type, { topics, payload }]) => [
        type,
        [topics.join(), Object.keys(payload.properties ?? {}).join(), payload.isClosed === true],
      ]),
    );
    assert.deepEqual(found, {
      Event: ['orders.v1', 'b', true],
      O: ['orders.v1', 'e', true],
      P: ['orders.v1', 'd', true],
      S1: ['orders.v1', 'c', false],
      S2: ['orders.v1', '', false],
      SENT: ['sent.v1', 'a', true],
      named: ['', 'x,y', true],
    });
    assert.deepEqual(unknown, ['src/a.ts:9', 'src/a.ts:11', 'src/a.ts:12', 'src/a.ts:12']);
  });
});
