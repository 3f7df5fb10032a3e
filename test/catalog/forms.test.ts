import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { AvroSchemaParser } from '@asyncapi/avro-schema-parser';
import { Parser } from '@asyncapi/parser';
import type { Ajv2020 as Ajv } from 'ajv/dist/2020.js';
import ts from 'typescript';
import { catalogFolder } from '../../src/catalog/forms.ts';
import type { Catalog, CatalogEvent, Shape } from '../../src/catalog/shape.ts';
import { type AvroSchema, codecsOf, createDecoder } from '../../src/serialize/avro/avro.ts';
import { avroConfig } from '../serialize/avro-of.ts';
import { temporaryFolder } from '../support/folders.ts';

const { Ajv2020 } = createRequire(import.meta.url)('ajv/dist/2020.js') as { Ajv2020: typeof Ajv };

const text: Shape = { type: ['string'] };
const order: Shape = {
  type: ['object'],
  properties: {
    email: { type: ['string'], protection: 'encrypted' },
    lines: {
      type: ['array'],
      items: { type: ['object'], properties: { count: { type: ['integer'] } }, required: ['count'] },
    },
    note: { type: ['string', 'null'] },
    orderId: { type: ['string', 'number'] },
    rates: { type: ['object'], additionalProperties: { type: ['number'] } },
  },
  required: ['lines', 'orderId'],
};
const payload = { orderId: 'a', lines: [{ count: 2 }], note: null, rates: { EUR: 1.5 } };
const event = (shape: Shape, more: Partial<CatalogEvent> = {}): CatalogEvent => ({
  ...{
    from: ['src/a.ts#f'],
    topics: ['orders.v1'],
    contentType: 'application/json',
    keys: [],
    payload: shape,
  },
  ...more,
});
const odd = 'a/b <script>`x` */ "quoted" \u2028 #';
const long = 'LONG_'.repeat(100);
const catalog: Catalog = new Map([
  ['ORDER_CREATED', event(order, { keys: ['#result.id'] })],
  ['order.created', event(order, { topics: ['orders.v1', 'audit.v1'] })],
  ['Order_Created', event({})],
  [odd, event({ type: ['object'], properties: { [odd]: text, constructor: text }, required: [] })],
  [long, event({})],
  ['__proto__', event({})],
  ['TYPED', event({}, { contentType: 'application/avro', avro: { type: 'map', values: 'long' } })],
  ['PLAIN', event({}, { contentType: 'application/avro' })],
]);

/** Writes a catalog, and returns its files by their paths. */
function writeFiles(of: Catalog, folder = temporaryFolder('forms')): ReadonlyMap<string, string> {
  writeFileSync(join(folder, 'package.json'), '{ "name": "shop", "version": "1.2.0" }');
  const paths = catalogFolder(folder, folder).write(of, new Map());
  return new Map(paths.map((path) => [path, readFileSync(join(folder, path), 'utf8')]));
}

/** The only file of a catalog with this ending. */
function fileOf(of: Catalog, ending: string): string {
  const [found, ...more] = [...writeFiles(of)].filter(([path]) => path.endsWith(ending));
  assert.ok(found !== undefined && more.length === 0, ending);
  return found[1];
}
const avroOf = (eventType: string) =>
  fileOf(new Map([[eventType, catalog.get(eventType) as CatalogEvent]]), '.avsc');

const envelope = (eventType: string, its: unknown) => ({
  eventId: '382448737393414144',
  eventType,
  occurredAt: '2026-11-21T08:34:44.548Z',
  publishedAt: '2026-11-21T08:34:44.549Z',
  severity: 'INFO',
  metadata: {
    source: { serviceName: 'orders', serviceVersion: null, hostname: null },
    actor: { userId: null, sessionId: null },
    trace: { traceId: null, spanId: null, parentSpanId: null },
    correlationId: null,
    clientIp: null,
    tags: { tenant: 'acme' },
  },
  payload: its,
});

describe('the forms of a catalog', function () {
  this.timeout(60_000);

  it('AsyncAPI passes its own parser, with topics as channels and event types as messages', async () => {
    const parser = new Parser();
    parser.registerSchemaParser(AvroSchemaParser());
    const { document, diagnostics } = await parser.parse(fileOf(catalog, 'asyncapi.json'));
    assert.deepEqual(
      diagnostics
        .filter(({ severity }) => severity === 0)
        .map(({ message, path }) => [path.join('/'), message]),
      [],
    );
    assert.deepEqual([document?.info().title(), document?.info().version()], ['shop', '1.2.0']);
    const channels = document?.channels().all() ?? [];
    assert.deepEqual(channels.map((each) => each.address()).sort(), ['audit.v1', 'orders.v1']);
    const messages = document?.components().messages().all() ?? [];
    assert.deepEqual(messages.map((each) => each.name()).sort(), [...catalog.keys()].sort());
    const first = messages.find((each) => each.name() === 'ORDER_CREATED');
    assert.equal(first?.bindings().get('kafka')?.value().key.description, '#result.id');
    const typed = messages.find((each) => each.name() === 'TYPED');
    assert.equal(typed?.contentType(), 'application/avro');
  });

  it('JSON Schemas take the events, and refuse others', () => {
    const ajv = new Ajv2020({ formats: { 'date-time': true }, allowUnionTypes: true });
    const schemas = [...writeFiles(catalog)].filter(([path]) => path.startsWith('json-schema/'));
    assert.equal(new Set(schemas.map(([path]) => path.toLowerCase())).size, catalog.size);
    for (const [path, schema] of schemas) assert.ok(ajv.validateSchema(JSON.parse(schema)), path);
    const validate = ajv.compile(
      JSON.parse(Object.fromEntries(schemas)['json-schema/ORDER_CREATED.json'] ?? ''),
    );
    assert.ok(validate(envelope('ORDER_CREATED', payload)), JSON.stringify(validate.errors));
    for (const [path, wrong] of [
      ['/payload', envelope('ORDER_CREATED', { lines: [] })],
      ['/payload/lines/0/count', envelope('ORDER_CREATED', { ...payload, lines: [{ count: 1.5 }] })],
      ['/eventType', envelope('ORDER_PAID', payload)],
      [
        '/metadata/actor/userId',
        {
          ...envelope('ORDER_CREATED', payload),
          metadata: { ...envelope('', 1).metadata, actor: { userId: 1, sessionId: null } },
        },
      ],
    ] as const) {
      assert.equal(validate(wrong), false, path);
      assert.equal(validate.errors?.[0]?.instancePath, path);
    }
  });

  it('Avro schemas write and read the events as svc does', () => {
    const schema = avroOf('ORDER_CREATED');
    const { fields } = JSON.parse(schema) as { fields: { name: string; type: AvroSchema }[] };
    const ofPayload = fields.find(({ name }) => name === 'payload')?.type;
    const codec = codecsOf(avroConfig({ ORDER_CREATED: ofPayload }))('ORDER_CREATED');
    assert.deepEqual(JSON.parse(codec.schema), JSON.parse(schema));
    const { occurredAt, publishedAt: _, ...rest } = envelope('ORDER_CREATED', payload);
    const { head, tail } = codec.encode({
      ...rest,
      occurredAt: Date.parse(occurredAt),
      payload: { json: () => JSON.stringify(payload) },
    });
    const bytes = Buffer.from(`${head}\0${tail}`, 'latin1');
    const read = createDecoder(schema)(bytes) as { payload: object };
    assert.deepEqual(JSON.parse(JSON.stringify(read.payload)), { ...payload, email: null });
    const schemas = [...writeFiles(catalog)].filter(([path]) => path.startsWith('avro/'));
    assert.equal(schemas.length, catalog.size);
    for (const [, each] of schemas) createDecoder(each);
    const typeOf = (eventType: string) =>
      (JSON.parse(avroOf(eventType)) as { fields: { name: string; type: unknown }[] }).fields.at(-1)?.type;
    assert.equal(typeOf('PLAIN'), 'string');
    assert.deepEqual(typeOf('TYPED'), { type: 'map', values: 'long' });
    assert.equal(typeOf(odd), 'string');
  });

  it('show no character that turns text around', () => {
    const turned: Catalog = new Map([
      ['a\u202eb', event({ type: ['object'], properties: { 'c\u2066d': text }, required: [] })],
    ]);
    const all = [...writeFiles(turned).values()];
    assert.equal(all.length, 5);
    for (const each of all) assert.doesNotMatch(each, /[\u202e\u2066]/);
    assert.ok(all.some((each) => each.includes('"a\\u202eb"')));
  });

  it('TypeScript compiles, each type with its payload', () => {
    const folder = temporaryFolder('forms');
    writeFiles(catalog, folder);
    writeFileSync(
      join(folder, 'use.ts'),
      `import type { AnyEvent, EventEnvelope, EventPayloads } from './events.ts';
       export const one = (event: EventEnvelope<'ORDER_CREATED'>): number[] => event.payload.lines.map((line) => line.count);
       export const any = (event: AnyEvent): string | number | undefined =>
         event.eventType === 'ORDER_CREATED' ? event.payload.orderId : undefined;
       export const note: EventPayloads['order.created']['note'] = null;
       // @ts-expect-error not in the catalog
       export type Other = EventPayloads['ORDER_LOST'];
       // @ts-expect-error may be missing
       export const email = (event: EventEnvelope<'ORDER_CREATED'>): string => event.payload.email;`,
    );
    assert.deepEqual(problemsOf([join(folder, 'use.ts')]), []);
  });
});

function problemsOf(files: readonly string[]): string[] {
  const program = ts.createProgram(files, {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    strict: true,
    noEmit: true,
    allowImportingTsExtensions: true,
    types: [],
    typeRoots: [resolve('node_modules/@types')],
  });
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
}
