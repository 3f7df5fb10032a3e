// catalog/: the events of an application, described for their consumers.

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { severities } from '../ground/event-fields.ts';
import { nearestManifest, readBoundedSync } from '../ground/files.ts';
import type { FieldRule } from '../ground/pii-rule.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { compilePolicy, type PathState, type Policy } from '../protect/marks/policy.ts';
import { type AvroSchema, recordName, recordSchema } from '../serialize/avro/avro.ts';
import type { Declared, DeclaredTypes } from './declared.ts';
import {
  type Catalog,
  CatalogError,
  type CatalogEvent,
  catalogFileName,
  catalogText,
  isObject,
  type Kind,
  kindsOf,
  merged,
  namesOf,
  type Protection,
  propertiesOf,
  propertyNamed,
  type Shape,
  unknownShape,
  written,
} from './shape.ts';

// The forms of a catalog: JSON Schema, Avro, TypeScript, AsyncAPI.

const protectionNotes: Readonly<Record<Protection, string>> = {
  encrypted: 'ENC(…): encrypted; decryptFields of svc/consumer opens it',
  hashed: 'HASH(…): a keyed hash, the same for the same value',
  masked: 'masked: parts of the value are hidden',
};

const nullable = { type: ['string', 'null'] } as const;
const object = (properties: Readonly<Record<string, object>>): object => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
});
const allNullable = (...names: string[]): object =>
  object(Object.fromEntries(names.map((name) => [name, nullable])));

/** Unknown values are `null`. */
const metadataSchema = object({
  source: allNullable('serviceName', 'serviceVersion', 'hostname'),
  actor: allNullable('userId', 'sessionId'),
  trace: allNullable('traceId', 'spanId', 'parentSpanId'),
  correlationId: nullable,
  clientIp: nullable,
  tags: { type: 'object', additionalProperties: { type: 'string' } },
});

/** The schema of the whole envelope. */
function envelopeSchema(eventType: string, payload: Shape, metadata: object = metadataSchema): object {
  const time = { type: 'string', format: 'date-time' };
  return {
    title: eventType,
    ...object({
      eventId: { type: 'string' },
      eventType: { const: eventType },
      occurredAt: time,
      publishedAt: time,
      severity: { enum: severities },
      metadata,
      payload: payloadSchema(payload),
    }),
  };
}

/** Every payload is an object. */
function payloadSchema(payload: Shape): object {
  if (payload.type === undefined) return { type: 'object' };
  return written(payload, (protection) => ({ description: protectionNotes[protection] }));
}

function jsonSchemaText(eventType: string, payload: Shape): string {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    ...envelopeSchema(eventType, payload),
  };
  return `${printableJson(schema, 2)}\n`;
}

/** The record schema of an event type. A payload without an Avro type is JSON in a string, as svc writes it. */
function avroText(eventType: string, event: CatalogEvent): string {
  const { payload, avro, contentType } = event;
  const isWritten = contentType === 'application/avro';
  const typed = avro ?? (isWritten ? undefined : payloadSchemaOfAvro(eventType, payload));
  return `${printableJson(recordSchema(eventType, (typed as AvroSchema) ?? 'string'), 2)}\n`;
}

/** `undefined`: Avro has no type for the payload. */
function payloadSchemaOfAvro(eventType: string, payload: Shape): AvroSchema | undefined {
  const taken = new Set<string>();
  try {
    return typeOf(payload, 'payload');
  } catch (error) {
    if (error === noType) return undefined;
    throw error;
  }

  function typeOf(shape: Shape, path: string): AvroSchema {
    if (shape.type === undefined) throw noType;
    const [first, ...more] = shape.type.map((kind) => ofKind(kind, shape, path));
    return more.length === 0 ? (first as AvroSchema) : [first as AvroSchema, ...more];
  }

  function ofKind(kind: Kind, shape: Shape, path: string): AvroSchema {
    if (kind === 'object') return ofObject(shape, path);
    if (kind === 'array') return { type: 'array', items: typeOf(shape.items ?? {}, `${path}_item`) };
    return { string: 'string', integer: 'long', number: 'double', boolean: 'boolean', null: 'null' }[kind];
  }

  function ofObject(shape: Shape, path: string): AvroSchema {
    const { required = [], additionalProperties } = shape;
    const names = namesOf(shape);
    if (additionalProperties !== undefined) {
      if (names.length > 0) throw noType;
      return { type: 'map', values: typeOf(additionalProperties, `${path}_value`) };
    }
    if (names.some((name) => !/^[A-Za-z_]\w*$/.test(name))) throw noType;
    let name = path;
    while (taken.has(name)) name += '_';
    taken.add(name);
    return {
      type: 'record',
      name: `${recordName(eventType)}.${name}`,
      fields: names.map((each) => {
        const type = typeOf(propertyNamed(shape, each) as Shape, `${path}_${each}`);
        return required.includes(each)
          ? { name: each, type }
          : { name: each, type: withNull(type), default: null };
      }),
    };
  }
}

const noType = new Error('Avro has no type for it');

/** The default must have the first type of a union. */
function withNull(type: AvroSchema): AvroSchema {
  const all = Array.isArray(type) ? (type as readonly AvroSchema[]) : [type];
  return ['null', ...all.filter((each) => each !== 'null')];
}

const head = `// Made by \`npx --no svc catalog\` from what is published. Changes here are overwritten.

`;

const envelope = `export type EventType = keyof EventPayloads;

/** An event as its consumers read it, \`ConsumedEvent\` of \`svc/consumer\`. What was not known is \`null\`. */
export interface EventEnvelope<Type extends EventType = EventType> {
  readonly eventId: string;
  readonly eventType: Type;
  /** ISO 8601, UTC. */
  readonly occurredAt: string;
  readonly publishedAt: string;
  readonly severity: 'INFO' | 'WARN' | 'ERROR' | 'CRITICAL';
  readonly metadata: {
    readonly source: {
      readonly serviceName: string | null;
      readonly serviceVersion: string | null;
      readonly hostname: string | null;
    };
    readonly actor: { readonly userId: string | null; readonly sessionId: string | null };
    readonly trace: {
      readonly traceId: string | null;
      readonly spanId: string | null;
      readonly parentSpanId: string | null;
    };
    readonly correlationId: string | null;
    readonly clientIp: string | null;
    readonly tags: Readonly<Record<string, string>>;
  };
  readonly payload: EventPayloads[Type];
}

/** Any of them: \`eventType\` tells which payload it has. */
export type AnyEvent = { [Type in EventType]: EventEnvelope<Type> }[EventType];
`;

function typescriptText(catalog: Catalog): string {
  const names = namesFor(catalog.keys(), typeNameOf);
  const rows = [...catalog.keys()].map(
    (eventType) => `  readonly ${keyText(eventType)}: ${names.get(eventType)}Payload;\n`,
  );
  const payloads = [...catalog].map(([eventType, { payload }]) =>
    declaration(`${names.get(eventType)}Payload`, payload),
  );
  const map = `/** The payload of each event type. */\nexport interface EventPayloads {\n${rows.join('')}}\n\n`;
  return [`${head}${map}${envelope}`, ...payloads].join('\n');
}

function declaration(name: string, payload: Shape): string {
  // Every payload is an object.
  if (payload.type === undefined) return `export interface ${name} ${objectText({}, 0)}\n`;
  if (payload.type.length === 1 && payload.type[0] === 'object')
    return `export interface ${name} ${objectText(payload, 0)}\n`;
  return `export type ${name} = ${typeText(payload, 0)};\n`;
}

const plain: Partial<Record<Kind, string>> = {
  string: 'string',
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  null: 'null',
};

function typeText(shape: Shape, depth: number): string {
  if (shape.type === undefined) return 'unknown';
  const all = shape.type.map((kind) => {
    if (kind === 'object') return objectText(shape, depth);
    if (kind !== 'array') return plain[kind] as string;
    const { items = {} } = shape;
    const item = typeText(items, depth);
    const isOne = items.type === undefined || (items.type.length === 1 && items.type[0] !== 'array');
    return `readonly ${isOne ? item : `(${item})`}[]`;
  });
  return all.join(' | ');
}

function objectText(shape: Shape, depth: number): string {
  const indent = '  '.repeat(depth + 1);
  const { required = [], additionalProperties } = shape;
  const lines = namesOf(shape).map((name) => {
    const each = propertyNamed(shape, name) as Shape;
    const note = each.protection === undefined ? '' : `${indent}/** ${protectionNotes[each.protection]} */\n`;
    const mark = required.includes(name) ? '' : '?';
    return `${note}${indent}readonly ${keyText(name)}${mark}: ${typeText(each, depth + 1)};\n`;
  });
  if (additionalProperties !== undefined || lines.length === 0) {
    // An index signature must fit the named properties, too.
    const others =
      additionalProperties === undefined || lines.length > 0
        ? 'unknown'
        : typeText(additionalProperties, depth + 1);
    lines.push(`${indent}readonly [name: string]: ${others};\n`);
  }
  return `{\n${lines.join('')}${'  '.repeat(depth)}}`;
}

/** A name with special characters stays a string literal. */
function keyText(name: string): string {
  if (/^[A-Za-z_$][\w$]*$/.test(name)) return name;
  return printable(JSON.stringify(name));
}

interface ApiInfo {
  readonly title: string;
  readonly version: string;
}

const reference = (to: string): object => ({ $ref: to });
const kafka = (binding: object): object => ({ kafka: { ...binding, bindingVersion: '0.5.0' } });

/** An AsyncAPI document: channels are topics, messages are event types. Without servers, which differ by environment. */
function asyncapiText(catalog: Catalog, info: ApiInfo): string {
  const names = namesFor(catalog.keys(), fileNameOf);
  const nameOf = (eventType: string): string => names.get(eventType) as string;
  const topics = [...new Set([...catalog.values()].flatMap((event) => event.topics))].sort();
  const typesOf = (topic: string): string[] =>
    [...catalog].flatMap(([eventType, event]) => (event.topics.includes(topic) ? [eventType] : []));
  const document = {
    asyncapi: '3.0.0',
    info,
    defaultContentType: 'application/json',
    channels: Object.fromEntries(
      topics.map((topic) => [
        topic,
        {
          address: topic,
          messages: Object.fromEntries(
            typesOf(topic).map((type) => [nameOf(type), reference(`#/components/messages/${nameOf(type)}`)]),
          ),
          bindings: kafka({ topic }),
        },
      ]),
    ),
    operations: Object.fromEntries(
      topics.map((topic) => [
        `send.${topic}`,
        {
          action: 'send',
          channel: reference(`#/channels/${topic}`),
          messages: typesOf(topic).map((type) => reference(`#/channels/${topic}/messages/${nameOf(type)}`)),
        },
      ]),
    ),
    components: {
      schemas: { Metadata: metadataSchema, Headers: headersSchema },
      messages: Object.fromEntries(
        [...catalog].map(([eventType, event]) => [nameOf(eventType), messageOf(eventType, event)]),
      ),
    },
  };
  return `${printableJson(document, 2)}\n`;
}

const headersSchema = {
  type: 'object',
  properties: {
    eventId: { type: 'string' },
    eventType: { type: 'string' },
    traceparent: { type: 'string' },
    tracestate: { type: 'string' },
  },
  required: ['eventId', 'eventType'],
};

function messageOf(eventType: string, event: CatalogEvent): object {
  const { keys, contentType, payload } = event;
  const description = keys.length === 0 ? 'the id of the event' : keys.join(' or ');
  return {
    name: eventType,
    title: eventType,
    contentType,
    headers: reference('#/components/schemas/Headers'),
    payload:
      contentType === 'application/avro'
        ? { schemaFormat: avroFormat, schema: withNamespaces(JSON.parse(avroText(eventType, event))) }
        : envelopeSchema(eventType, payload, reference('#/components/schemas/Metadata')),
    bindings: kafka({ key: { type: 'string', description } }),
  };
}

/** Splits `svc.events.ORDER_CREATED` into namespace and name, as AsyncAPI requires. */
function withNamespaces(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withNamespaces);
  if (!isObject(schema)) return schema;
  const parts = Object.entries(schema).map(([key, value]) => [key, withNamespaces(value)]);
  const [, namespace, name] = /^(.+)\.([^.]+)$/.exec(String(schema.name)) ?? [];
  return { ...Object.fromEntries(parts), ...(namespace !== undefined && { namespace, name }) };
}

const avroFormat = 'application/vnd.apache.avro;version=1.9.0';

/** A file or type name for each event type, unique regardless of case. The first in order keeps the plain name. */
function namesFor(
  eventTypes: Iterable<string>,
  plainNameOf: (eventType: string) => string | undefined,
): ReadonlyMap<string, string> {
  const taken = new Set<string>();
  const found = new Map<string, string>();
  for (const eventType of [...eventTypes].sort()) {
    const plain = plainNameOf(eventType);
    const name = plain === undefined || taken.has(plain.toLowerCase()) ? hashed(plain, eventType) : plain;
    taken.add(name.toLowerCase());
    found.set(eventType, name);
  }
  return found;
}

const longestPlain = 100;

function hashed(plain: string | undefined, eventType: string): string {
  const shown = (plain ?? eventType.replace(/[^A-Za-z0-9]+/g, '_')).slice(0, longestPlain / 2);
  return `${shown}_${createHash('sha256').update(eventType).digest('hex').slice(0, 8)}`;
}

/** Device names, which Windows does not allow as files. */
const reserved = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i;

/** For files and parts of an AsyncAPI document. */
function fileNameOf(eventType: string): string | undefined {
  const isPlain = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/.test(eventType) && !eventType.endsWith('.');
  return isPlain && eventType.length <= longestPlain && !reserved.test(eventType) ? eventType : undefined;
}

/** `ORDER_CREATED` and `order.created` become `OrderCreated`. */
function typeNameOf(eventType: string): string | undefined {
  if (eventType.length > longestPlain) return undefined;
  const words = eventType.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  const name = words
    .map(
      (word) =>
        word.charAt(0).toUpperCase() + (/[a-z]/.test(word) ? word.slice(1) : word.slice(1).toLowerCase()),
    )
    .join('');
  if (name === '') return undefined;
  return /^\d/.test(name) ? `E${name}` : name;
}

/** The publisher of a type that was seen in a topic, but is not declared in the sources. */
const seenIn = (topic: string): string => `topic ${topic}`;
const isSeenOnly = ({ from }: CatalogEvent): boolean => from.every((each) => each.startsWith(seenIn('')));

/**
 * The declared event types, with the known payloads of the previous catalog.
 *
 * @throws CatalogError
 */
export function madeCatalog(
  { types }: Pick<DeclaredTypes, 'types'>,
  config: Config,
  before: Catalog,
): Catalog {
  const events = new Map<string, CatalogEvent>();
  for (const [eventType, event] of before)
    if (!types.has(eventType) && isSeenOnly(event))
      events.set(eventType, { ...event, from: event.topics.map(seenIn) });
  for (const [eventType, declared] of types)
    events.set(eventType, eventOf(eventType, declared, before.get(eventType), config));
  return new Map([...events].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function eventOf(
  eventType: string,
  { from, topics, keys, payload, rules }: Declared,
  before: CatalogEvent | undefined,
  config: Config,
): CatalogEvent {
  const { serde, pii } = config;
  const isAvro = serde.type === 'AVRO';
  const avro = avroOf(eventType, config);
  const policy = compilePolicy(pii.enabled ? [...rules, ...pii.fields] : []);
  return {
    ...{ from, keys, topics: topics.length === 0 ? (before?.topics ?? []) : topics },
    contentType: isAvro ? 'application/avro' : 'application/json',
    payload:
      isAvro && avro !== undefined
        ? shapeOfAvro(avro)
        : protectedShape(completed(payload, before && unmasked(before.payload)), policy),
    ...(avro !== undefined && { avro }),
  };
}

function avroOf(eventType: string, { serde, baseDir }: Config): unknown {
  const [file] = serde.schemas?.[eventType] ?? [];
  if (file === undefined) return undefined;
  try {
    return JSON.parse(readBoundedSync(resolve(baseDir, file)).toString());
  } catch {
    throw new CatalogError(`svc.serde.schemas: ${file} of ${JSON.stringify(eventType)} holds no Avro schema`);
  }
}

/** Masks result from rules, which may have changed. */
function unmasked({ properties, items, additionalProperties, protection, ...rest }: Shape): Shape {
  return {
    ...rest,
    ...(properties !== undefined && {
      properties: propertiesOf(Object.entries(properties).map(([name, each]) => [name, unmasked(each)])),
    }),
    ...(items !== undefined && { items: unmasked(items) }),
    ...(additionalProperties !== undefined && { additionalProperties: unmasked(additionalProperties) }),
    ...(protection !== undefined && protection !== 'masked' && { protection }),
  };
}

/** All files of a catalog, by relative path. */
function filesOf(catalog: Catalog, baseDir: string): ReadonlyMap<string, string> {
  const { name, version } = nearestManifest(baseDir) ?? {};
  const names = namesFor(catalog.keys(), fileNameOf);
  return new Map([
    ...[...catalog].flatMap(([eventType, event]): [string, string][] => {
      const { json, avro } = pathsOf(names.get(eventType) as string);
      return [
        [json, jsonSchemaText(eventType, event.payload)],
        [avro, avroText(eventType, event)],
      ];
    }),
    ['events.ts', typescriptText(catalog)],
    ['asyncapi.json', asyncapiText(catalog, { title: name ?? 'events', version: version ?? '0.0.0' })],
    // Last, because all other files are generated from it.
    [catalogFileName, catalogText(catalog)],
  ]);
}

const pathsOf = (name: string) => ({ json: `json-schema/${name}.json`, avro: `avro/${name}.avsc` });

/** The files of catalogs in a folder. `baseDir`: of the application that they describe. */
export function catalogFolder(folder: string, baseDir: string) {
  const changedOf = (files: ReadonlyMap<string, string>): [path: string, text: string][] =>
    [...files].filter(([path, text]) => textAt(join(folder, path)) !== text);

  return {
    /** The paths of the catalog's files that are missing or different. */
    outdated: (catalog: Catalog): string[] => changedOf(filesOf(catalog, baseDir)).map(([path]) => path),
    /**
     * Writes changed files atomically, and deletes files of removed event types. Returns the paths that were written.
     *
     * @throws CatalogError
     */
    write(catalog: Catalog, before: Catalog): string[] {
      const files = filesOf(catalog, baseDir);
      const changed = changedOf(files);
      try {
        for (const [path, text] of changed) writeWhole(join(folder, path), text);
        for (const name of namesFor(before.keys(), fileNameOf).values())
          for (const path of Object.values(pathsOf(name)))
            if (!files.has(path)) rmSync(join(folder, path), { force: true });
      } catch (error) {
        throw new CatalogError(`${folder} cannot be written (${(error as NodeJS.ErrnoException).code})`);
      }
      return changed.map(([path]) => path);
    },
  };
}

function writeWhole(place: string, text: string): void {
  const early = `${place}.${process.pid}.tmp`;
  mkdirSync(dirname(place), { recursive: true });
  try {
    writeFileSync(early, text);
    renameSync(early, place);
  } finally {
    rmSync(early, { force: true });
  }
}

function textAt(path: string): string | undefined {
  try {
    // Git may check files out with CRLF.
    return readFileSync(path, 'utf8').replaceAll('\r\n', '\n');
  } catch {
    return undefined;
  }
}

const protectionsOfProtected = { MASK: 'masked', ENCRYPT: 'encrypted', HASH: 'hashed' } as const;

const leaves: readonly Kind[] = ['string', 'integer', 'number', 'boolean'];

/** The shape after protection: protected values are texts, excluded ones are missing. */
function protectedShape(shape: Shape, policy: Policy): Shape {
  return visit(shape, policy.root, policy.root.rule) ?? {};
}

function visit(shape: Shape, state: PathState, rule: FieldRule | undefined): Shape | undefined {
  if (rule?.strategy === 'EXCLUDE') return undefined;
  const { properties, required, additionalProperties, items } = shape;
  const below = (each: Shape, next: PathState) => visit(each, next, next.rule ?? rule);
  const inside = Object.entries(properties ?? {}).flatMap(([name, each]) => {
    const after = below(each, state.next(name));
    return after === undefined ? [] : [[name, after] as const];
  });
  const names = new Set(inside.map(([name]) => name));
  const others = additionalProperties && below(additionalProperties, state.other());
  const element = items && below(items, state.element());
  return {
    ...leafOf(shape, rule),
    ...(properties !== undefined && { properties: propertiesOf(inside) }),
    ...(required !== undefined && { required: required.filter((name) => names.has(name)) }),
    ...(others !== undefined && { additionalProperties: others }),
    ...(element !== undefined && { items: element }),
  };
}

function leafOf({ type, protection }: Shape, rule: FieldRule | undefined): Shape {
  if (rule === undefined || rule.strategy === 'EXCLUDE')
    return { ...(type !== undefined && { type }), ...(protection !== undefined && { protection }) };
  // Protected texts and numbers become texts. Protected objects show in events.
  const after = (type ?? ['string']).map((kind): Kind => (leaves.includes(kind) ? 'string' : kind));
  const isText = after.includes('string');
  return { type: kindsOf(after), ...(isText && { protection: protectionsOfProtected[rule.strategy] }) };
}

/** Combines a declared shape with a learned one. If the declaration spells out the names, events add only the types behind them. */
function completed(declared: Shape, learned: Shape | undefined): Shape {
  if (learned?.type === undefined) return open(declared);
  const spelled = declared.properties;
  if (spelled === undefined) return declared.type === undefined ? learned : open(declared);
  const names = declared.isClosed
    ? namesOf(declared)
    : [...new Set([...namesOf(declared), ...namesOf(learned)])];
  const required = learned.required?.filter((name) => names.includes(name));
  const { additionalProperties, items } = declared.isClosed ? {} : learned;
  return {
    type: declared.isClosed ? ['object'] : kindsOf([...learned.type, 'object']),
    properties: propertiesOf(
      names.map((name) => [
        name,
        completed(propertyNamed(declared, name) ?? unknownShape, propertyNamed(learned, name)),
      ]),
    ),
    ...(required !== undefined && { required }),
    ...(additionalProperties !== undefined && { additionalProperties }),
    ...(items !== undefined && { items }),
  };
}

/** The shape for the file. */
function open({ isClosed: _, properties, ...rest }: Shape): Shape {
  if (properties === undefined) return rest;
  return {
    ...rest,
    properties: propertiesOf(Object.entries(properties).map(([name, each]) => [name, open(each)])),
  };
}

const primitives: Readonly<Record<string, Shape>> = {
  null: { type: ['null'] },
  boolean: { type: ['boolean'] },
  int: { type: ['integer'] },
  long: { type: ['integer'] },
  float: { type: ['number'] },
  double: { type: ['number'] },
  string: { type: ['string'] },
  enum: { type: ['string'] },
};

/** Readers get these types as texts. */
const asText = /^(?:timestamp-|time-|date$|decimal$)/;

/** The JSON shape of a payload with this Avro schema. Types without a JSON form are unknown. */
function shapeOfAvro(schema: unknown, named = new Map<string, unknown>(), depth = 0): Shape {
  if (depth > 50) return unknownShape;
  if (Array.isArray(schema)) return shapeOfUnion(schema, named, depth);
  if (typeof schema === 'string') {
    const shape = primitives[schema];
    if (shape !== undefined) return shape;
    const known = named.get(schema.split('.').at(-1) as string);
    return known === undefined ? unknownShape : shapeOfAvro(known, new Map(named), depth + 1);
  }
  if (!isObject(schema)) return unknownShape;
  const { type, logicalType, name, fields, items, values } = schema;
  if (typeof name === 'string') named.set(name.split('.').at(-1) as string, schema);
  if (typeof logicalType === 'string' && asText.test(logicalType)) return { type: ['string'] };
  if (Array.isArray(type) || isObject(type)) return shapeOfAvro(type, named, depth + 1);
  if (type === 'array') return { type: ['array'], items: shapeOfAvro(items, named, depth + 1) };
  if (type === 'map')
    return { type: ['object'], additionalProperties: shapeOfAvro(values, named, depth + 1) };
  if ((type === 'record' || type === 'error') && Array.isArray(fields)) {
    const all = (fields as unknown[]).filter(isObject).map((field) => {
      return [String(field.name), shapeOfAvro(field.type, named, depth + 1)] as const;
    });
    return { type: ['object'], properties: propertiesOf(all), required: all.map(([each]) => each).sort() };
  }
  return typeof type === 'string' && type !== 'record' ? shapeOfAvro(type, named, depth + 1) : unknownShape;
}

/** A value of several records and maps is wrapped in its name: `{ "com.example.Card": { … } }`. */
function shapeOfUnion(all: readonly unknown[], named: Map<string, unknown>, depth: number): Shape {
  const shapes = all.map((each) => shapeOfAvro(each, named, depth + 1));
  if (shapes.some(({ type }) => type === undefined)) return unknownShape;
  if (shapes.filter(({ type }) => type?.includes('object')).length < 2)
    return shapes.reduce((found, each) => merged(found, each));
  const others = shapes.filter(({ type }) => !type?.includes('object'));
  const rest = others.reduce<Shape>((found, each) => merged(found, each), unknownShape);
  return { ...rest, type: kindsOf([...(rest.type ?? []), 'object']) };
}
