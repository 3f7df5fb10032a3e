// avro/: envelopes as Avro records, in Confluent's wire format.

import { resolve } from 'node:path';
import { types } from 'node:util';
import type { Config } from '../../config/config.ts';
import type { EventMetadata } from '../../envelope/envelope.ts';
import { clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { readBoundedSync } from '../../ground/files.ts';
import { logger } from '../../observe/logger.ts';
import { NativeValue, ownText } from '../../protect/own-text.ts';
import type { ProtectedEnvelope } from '../../protect/protect.ts';
import {
  type EventForm,
  EventValue,
  jsonForm,
  payloadJson,
  type Serializer,
  schemaHeader,
  toJson,
} from '../serializer.ts';
import { exactType, type LargeNumbers } from './exact-types.ts';
import type { SchemaRegistry, Subject } from './schema-registry.ts';

const avroContentType = 'application/avro';

type AvroType = ReturnType<typeof exactType>;

interface WaitingRecord {
  readonly value: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

/** Avro as configured, with the ids of a registry. */
export function openAvro(config: Config, registry: SchemaRegistry) {
  const { subjectNameStrategy: strategy, autoRegister, onRegistryUnavailable } = config.serde;
  const where = onRegistryUnavailable === 'wait' ? 'wait for it' : 'go to the backup';
  const codecOf = codecsOf(config);
  const ids = createSchemaIds({
    ...{ registry, strategy, autoRegister },
    onAway: (message) => logger.error(`serde: events without a known schema id ${where}: ${message}`),
    onBack: () => logger.info('serde: the schema registry answers again'),
    onRefused: ({ code, message }) => logger.error(`serde: ${message}`, { code }),
  });
  const mayWait = !config.outbox.enabled || config.outbox.publisherEnabled;
  return {
    serializerOf: (): Serializer => createAvroSerializer({ codecOf, ids, mayWait }),
    /** Of a record that waits for its schema. Rejects with an `SvcError`. */
    async encode(topic: string, record: WaitingRecord): Promise<WaitingRecord> {
      const { [schemaHeader]: _, ...headers } = record.headers;
      const codec = codecOf(headers.eventType ?? '');
      const value = fromWaiting(codec, await ids.ask(codec, topic), record.value);
      return { value, headers: { ...headers, 'content-type': avroContentType } };
    },
    /** Fetches the id of an event type in the background. */
    prepare(eventType: string, topic: string): void {
      try {
        ids.ask(codecOf(eventType), topic).catch(() => {});
      } catch (error) {
        logger.error(`serde: ${(error as Error).message}`);
      }
    },
  };
}

interface AvroSerializerOptions {
  readonly codecOf: (eventType: string) => EventCodec;
  readonly ids: SchemaIds;
  /** `false`: svc does not send the record itself (a connector reads the outbox), so it cannot wait as JSON. */
  readonly mayWait: boolean;
}

/** Confluent's wire format: a magic byte, the schema's id, and the envelope as an Avro record. */
function createAvroSerializer({ codecOf, ids, mayWait }: AvroSerializerOptions): Serializer {
  const forms = new WeakMap<EventCodec, { readonly avro: EventForm; readonly waiting: EventForm }>();

  function formsOf(codec: EventCodec): { readonly avro: EventForm; readonly waiting: EventForm } {
    let found = forms.get(codec);
    if (found === undefined) {
      const waiting = { ...jsonForm, headers: { ...jsonForm.headers, [schemaHeader]: codec.name } };
      found = { avro: avroFormOf(codec), waiting };
      forms.set(codec, found);
    }
    return found;
  }

  return {
    serialize(envelope, record) {
      const { topic } = record;
      const codec = codecOf(envelope.template.eventType);
      // A payload that does not fit is refused, even if the id is unknown.
      const { head, tail } = codec.encode(eventOf(envelope, codec));
      const id = ids.known(codec, topic);
      if (id !== undefined) return new EventValue(formsOf(codec).avro, prefixOf(id) + head, [tail]);
      ids.ask(codec, topic).catch(() => {});
      if (!mayWait) throw notKnown(codec);
      return toJson(envelope, formsOf(codec).waiting, jsonOf(envelope, codec));
    },
  };
}

function avroFormOf(codec: EventCodec): EventForm {
  return {
    headers: { 'content-type': avroContentType },
    encoding: 'latin1',
    publishedAt: timeText,
    toJson: (value) => codec.decode(value.subarray(prefixBytes)),
  };
}

/** A typed payload keeps its types. */
function jsonOf(envelope: ProtectedEnvelope, { isText }: EventCodec): string {
  return payloadJson(envelope, isText ? undefined : typedJson);
}

function eventOf(envelope: ProtectedEnvelope, codec: EventCodec): AvroEvent {
  const { eventId, template, origin, trace, occurredAt } = envelope;
  const { correlationId, clientIp, tags } = origin;
  return {
    eventId,
    eventType: template.eventType,
    occurredAt: Date.parse(occurredAt),
    severity: template.severity,
    metadata: {
      source: template.source,
      actor: origin,
      trace,
      correlationId,
      clientIp,
      tags: tags ?? noTags,
    },
    payload: {
      json: () => jsonOf(envelope, codec),
      plain: () => plainJson(envelope.payload, envelope.sealed),
    },
  };
}

const noTags = {};

/** The end of the metadata and the start of the payload. Quotes in earlier texts are escaped, so this is the first match. */
const payloadAt = '}},"payload":';

/** The Avro record from JSON that waited for the schema's id. Throws an `SvcError` for other JSON. */
function fromWaiting(codec: EventCodec, id: number, json: Buffer): Buffer {
  const text = json.toString();
  const at = text.indexOf(payloadAt);
  let document: Readonly<Record<string, unknown>>;
  try {
    document = JSON.parse(`${text.slice(0, at + 2)}}`);
    if (typeof (document as unknown as AvroEvent).metadata.trace.traceId === 'undefined') throw new Error();
  } catch {
    throw new SvcError(
      'SVC_SERIALIZE_SCHEMA_MISFIT',
      'the record that waited for its schema is not an envelope',
    );
  }
  const { occurredAt, publishedAt } = document as { occurredAt: string; publishedAt: string };
  const { head, tail } = codec.encode({
    ...(document as unknown as AvroEvent),
    occurredAt: Date.parse(occurredAt),
    // The original text, because parsed numbers could lose digits.
    payload: { json: () => text.slice(at + payloadAt.length, -1) },
  });
  return Buffer.from(prefixOf(id) + head + timeText(Date.parse(publishedAt)) + tail, 'latin1');
}

function notKnown({ name }: EventCodec): SvcError {
  return new SvcError(
    'SVC_SERIALIZE_REGISTRY_AWAY',
    `the schema registry has not returned the id of ${name} yet, but a connector that reads the outbox cannot wait for it`,
  );
}

/** The parts of a record in Confluent's wire format. Throws `SVC_SERIALIZE_NOT_AVRO` for other bytes. */
export function splitRecord(value: Buffer): { readonly id: number; readonly body: Buffer } {
  if (value.length < prefixBytes || value[0] !== 0)
    throw new SvcError(
      'SVC_SERIALIZE_NOT_AVRO',
      'it does not begin with a magic byte 0 and the id of a schema',
    );
  return { id: value.readUInt32BE(1), body: value.subarray(prefixBytes) };
}

/** As for templates: `publish()` accepts any event type. */
const maxKept = 1_000;

/**
 * Caches the codec of each event type. The files of `svc.serde.schemas` have the schemas of typed payloads. Throws
 * `SVC_SERIALIZE_SCHEMA` if a file contains no schema.
 */
export function codecsOf({ serde: { schemas }, baseDir }: Config): (eventType: string) => EventCodec {
  const codecs = new Map<string, EventCodec | SvcError>();
  function made(eventType: string): EventCodec | SvcError {
    const named = schemas?.[eventType]?.[0];
    const file = named === undefined ? undefined : resolve(baseDir, named);
    try {
      const payload = file === undefined ? undefined : JSON.parse(readBoundedSync(file).toString());
      return createEventCodec(eventType, payload);
    } catch (error) {
      if (error instanceof SvcError) return error;
      const why = error instanceof Error ? error.message : String(error);
      return new SvcError('SVC_SERIALIZE_SCHEMA', `${file ?? eventType} holds no Avro schema: ${why}`);
    }
  }
  return (eventType) => {
    let codec = codecs.get(eventType);
    if (codec === undefined) {
      codec = made(eventType);
      if (codecs.size < maxKept) codecs.set(eventType, codec);
    }
    if (codec instanceof SvcError) throw codec;
    return codec;
  };
}

/** An envelope for encoding. Times in milliseconds since the epoch. */
interface AvroEvent {
  readonly eventId: string;
  readonly eventType: string;
  readonly occurredAt: number;
  readonly severity: string;
  readonly metadata: EventMetadata;
  readonly payload: AvroPayload;
}

/** Each method is called at most once, and only if the schema needs it. */
interface AvroPayload {
  readonly json: () => string;
  /** The same as parsed from `json`; `notPlain`: unknown without `json`. Left out: always unknown. */
  readonly plain?: () => unknown;
}

/** The bytes of a record around `publishedAt`, one character per byte (`latin1`). */
interface AvroText {
  readonly head: string;
  readonly tail: string;
}

/** One record schema with its encoder and decoder. */
interface EventCodec {
  readonly eventType: string;
  /** The payload is JSON in a string. */
  readonly isText: boolean;
  /** Full name of the record. */
  readonly name: string;
  /** As JSON, for the registry. */
  readonly schema: string;
  /** Throws `SVC_SERIALIZE_SCHEMA_MISFIT` with the path of the field if the payload does not fit. */
  encode(event: AvroEvent): AvroText;
  /** The envelope of a record without its prefix. */
  decode(bytes: Buffer): unknown;
}

/** Magic byte and schema id. */
const prefixBytes = 5;

function prefixOf(id: number): string {
  const prefix = Buffer.alloc(prefixBytes);
  prefix.writeUInt32BE(id, 1);
  return prefix.toString('latin1');
}

/** An Avro long: zigzag, seven bits per byte. */
function timeText(ms: number): string {
  // Exact within 2^52 ms, the year 144,000.
  let rest = ms < 0 ? -2 * ms - 1 : 2 * ms;
  let text = '';
  while (rest > 0x7f) {
    text += String.fromCharCode((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  return text + String.fromCharCode(rest);
}

/** @param payload the schema of a typed payload; default: the payload is JSON in a string */
function createEventCodec(eventType: string, given?: AvroSchema): EventCodec {
  const isText = given === undefined;
  const payload = given === undefined ? undefined : payloadSchema(eventType, given);
  const schema = recordSchema(eventType, given ?? 'string');
  const writePayload = payloadWriter(eventType, payload === undefined ? 'string' : forWriting(payload));
  const payloadOf = ({ json, plain }: AvroPayload): unknown => {
    if (isText) return json();
    const known = plain?.() ?? notPlain;
    return known === notPlain ? JSON.parse(json()) : known;
  };
  // First, because an invalid schema has its own message.
  const decode = decoderOf(compiled(schema));
  return {
    eventType,
    isText,
    name: recordName(eventType),
    schema: JSON.stringify(schema),
    encode(event) {
      return { head: headOf(event), tail: metadataOf(event) + writePayload(payloadOf(event.payload)) };
    },
    decode,
  };
}

/** Decodes records of a schema to envelopes as in JSON. Throws `SVC_SERIALIZE_NOT_AVRO` for an invalid schema. */
export function createDecoder(schema: string, large: LargeNumbers = 'text'): (bytes: Buffer) => unknown {
  let type: AvroType;
  try {
    type = exactType(JSON.parse(schema), large);
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError('SVC_SERIALIZE_NOT_AVRO', 'its schema is not an Avro schema');
  }
  return decoderOf(type);
}

function decoderOf(type: AvroType): (bytes: Buffer) => unknown {
  const fields = (type as { fields?: readonly { name: string; type: AvroType }[] }).fields ?? [];
  const isText = fields.some((field) => field.name === 'payload' && field.type.typeName === 'string');
  return (bytes) => {
    let value: unknown;
    try {
      value = type.fromBuffer(bytes);
    } catch {
      // avsc's message contains values.
      throw new SvcError('SVC_SERIALIZE_NOT_AVRO', 'the bytes end early, or are of another schema');
    }
    // Other programs may write non-records.
    if (type.typeName !== 'record') return value;
    const record = { ...(value as object) } as Record<string, unknown>;
    const { payload } = record;
    if (!isText || typeof payload !== 'string') return record;
    try {
      return { ...record, payload: JSON.parse(payload) };
    } catch {
      throw new SvcError('SVC_SERIALIZE_NOT_AVRO', 'its payload is not JSON text');
    }
  };
}

function compiled(schema: AvroSchema): AvroType {
  return exactType(schema);
}

/** Usual ids and names: ASCII, one byte per character. */
const plain = /^[\w.:@ -]*$/;

/** An Avro string. `undefined`: the slow path must encode it. */
function shortText(value: unknown): string | undefined {
  return typeof value === 'string' && plain.test(value) ? timeText(value.length) + value : undefined;
}

/** The same for nullable strings. */
function nullableText(value: unknown): string | undefined {
  if (value === null) return '\0';
  const text = shortText(value);
  return text === undefined ? undefined : `\x02${text}`;
}

/** The types of the fields that all events have. The bytes of a record are those of its fields. */
interface EnvelopeTypes {
  readonly head: AvroType;
  readonly before: AvroType;
  readonly trace: AvroType;
  readonly after: AvroType;
}

let envelopeTypes: EnvelopeTypes | undefined;

function typesOfEnvelope(): EnvelopeTypes {
  const part = (...fields: readonly object[]): AvroType => compiled(partOf('', fields));
  envelopeTypes ??= {
    head: part(...headFields.map(plainTime)),
    before: part({ name: 'severity', type: 'string' }, metadataField(metadataFields.slice(0, 2))),
    trace: part(metadataField(metadataFields.slice(2, 3))),
    after: part(metadataField(metadataFields.slice(3))),
  };
  return envelopeTypes;
}

function headOf(event: AvroEvent): string {
  const { eventId, eventType, occurredAt } = event;
  const [id, type] = [shortText(eventId), shortText(eventType)];
  if (id === undefined || type === undefined || !(Math.abs(occurredAt) < 2 ** 52))
    return textOf(typesOfEnvelope().head, event);
  return id + type + timeText(occurredAt);
}

/** The bytes before and after an event's trace. Consecutive events of a request share them. */
interface AroundTrace {
  readonly severity: string;
  readonly metadata: AvroEvent['metadata'];
  readonly before: string;
  readonly after: string;
}

let around: AroundTrace | undefined;

function metadataOf({ severity, metadata }: AvroEvent): string {
  let { before, after } = around ?? { before: '', after: '' };
  if (around === undefined || severity !== around.severity || !isSameOrigin(metadata, around.metadata)) {
    const types = typesOfEnvelope();
    before = textOf(types.before, { severity, metadata });
    after = textOf(types.after, { metadata });
    around = { severity, metadata, before, after };
  }
  return before + traceOf(metadata) + after;
}

/** The actor of an envelope is its whole origin: with it, ids, address and tags are the same. */
function isSameOrigin(one: AvroEvent['metadata'], other: AvroEvent['metadata']): boolean {
  return one.source === other.source && one.actor === other.actor;
}

function traceOf(metadata: AvroEvent['metadata']): string {
  const { traceId, spanId, parentSpanId } = metadata.trace;
  const [trace, span, parent] = [nullableText(traceId), nullableText(spanId), nullableText(parentSpanId)];
  if (trace !== undefined && span !== undefined && parent !== undefined) return trace + span + parent;
  return textOf(typesOfEnvelope().trace, { metadata });
}

/** A text as an Avro string. `undefined`: not a valid text. */
function latin1Of(text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined;
  const bytes = Buffer.byteLength(text);
  if (bytes === text.length) return timeText(bytes) + text;
  if (!text.isWellFormed()) return undefined;
  if (bytes > sharedBytes) return timeText(bytes) + Buffer.from(text).toString('latin1');
  shared ??= Buffer.allocUnsafe(sharedBytes);
  shared.write(text);
  return timeText(bytes) + shared.toString('latin1', 0, bytes);
}

function payloadWriter(eventType: string, schema: AvroSchema): (payload: unknown) => string {
  const type = compiled(partOf(eventType, [{ name: 'payload', type: schema }]));
  return (payload) => {
    const text = schema === 'string' ? latin1Of(payload) : undefined;
    if (text !== undefined) return text;
    return textOf(type, { payload });
  };
}

let shared: Buffer | undefined;
const sharedBytes = 65_536;

function textOf(type: AvroType, value: unknown): string {
  shared ??= Buffer.allocUnsafe(sharedBytes);
  try {
    const end = type.encode(value, shared, 0);
    if (end >= 0) return shared.toString('latin1', 0, end);
    return type.toBuffer(value).toString('latin1');
  } catch {
    throw misfit(type, value);
  }
}

/** A type that explains why it rejects a value. */
interface Explaining {
  why?(value: unknown): string | undefined;
}

function misfit(type: AvroType, value: unknown): SvcError {
  let path: readonly string[] = [];
  let wanted = '';
  let why: string | undefined;
  try {
    type.isValid(value, {
      errorHook(where, found, expected) {
        [path, wanted] = [[...where], nameOf(expected)];
        why = (expected as Explaining).why?.(found);
        throw new Error('the first is enough');
      },
    });
  } catch {
    // `path` holds the reason.
  }
  const says = `${wanted === '' ? 'does not fit' : `is no ${wanted}`}${why === undefined ? '' : `: ${why}`}`;
  return new SvcError(
    'SVC_SERIALIZE_SCHEMA_MISFIT',
    `the payload does not fit its Avro schema: ${shownPath(path, type)} ${says}`,
  );
}

/** A date is named by its logical type; a union is named `union`. */
function nameOf({ typeName, underlyingType }: AvroType & { readonly underlyingType?: AvroType }): string {
  const [name = '', logical = ''] = typeName.split(':');
  if (name !== 'logical') return name;
  return logical === 'undefined' ? (underlyingType?.typeName ?? '') : logical;
}

/** Names of fields and positions. Map keys belong to the event and may be values, so they are hidden. */
function shownPath(path: readonly string[], top: AvroType): string {
  let shown = '';
  let type: Fielded | undefined = top as Fielded;
  for (const part of path) {
    const field: { name: string; type: Fielded } | undefined = type?.fields?.find(
      ({ name }) => name === part,
    );
    if (field !== undefined) shown += shown === '' ? part : `.${part}`;
    else shown += type?.itemsType === undefined ? '.*' : `[${part}]`;
    type = unionBranch(field?.type ?? type?.itemsType ?? type?.valuesType);
  }
  return shown || 'it';
}

interface Fielded {
  readonly typeName: string;
  readonly fields?: readonly { readonly name: string; readonly type: Fielded }[];
  readonly itemsType?: Fielded;
  readonly valuesType?: Fielded;
  readonly types?: readonly Fielded[];
}

/** The branch of a union that has fields or items. */
function unionBranch(type: Fielded | undefined): Fielded | undefined {
  return type?.types?.find((each) => each.fields ?? each.itemsType ?? each.valuesType) ?? type;
}

/** A long made from precomputed bytes. */
function plainTime(field: object): object {
  const { type } = field as { type: unknown };
  return typeof type === 'object' ? { ...field, type: 'long' } : field;
}

/** Nullable fields may be missing, as in JSON. The bytes are the same. */
function forWriting(schema: AvroSchema): AvroSchema {
  if (Array.isArray(schema)) return schema.map(forWriting);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { fields, items, values, type } = schema as Readonly<Record<string, AvroSchema>>;
  return {
    ...schema,
    ...(items !== undefined && { items: forWriting(items) }),
    ...(values !== undefined && { values: forWriting(values) }),
    ...(typeof type === 'object' && { type: forWriting(type) }),
    ...(Array.isArray(fields) && {
      fields: fields.map((field: object) => {
        const { type: of } = field as { type: AvroSchema };
        const mayBeNull = Array.isArray(of) && of[0] === 'null' && !('default' in field);
        return { ...field, type: forWriting(of), ...(mayBeNull && { default: null }) };
      }),
    }),
  };
}

/** A schema as JSON. */
export type AvroSchema = string | readonly AvroSchema[] | { readonly [name: string]: unknown };

const namespace = 'svc.events';
const nullable = (name: string): object => ({ name, type: ['null', 'string'], default: null });
const time = (name: string): object => ({ name, type: { type: 'long', logicalType: 'timestamp-millis' } });
const group = (name: string, type: string, fields: readonly string[]): object => ({
  name,
  type: { type: 'record', name: type, fields: fields.map(nullable) },
});
const metadataField = (fields: readonly object[]): object => ({
  name: 'metadata',
  type: { type: 'record', name: 'Metadata', fields },
});

/** The fields before `publishedAt`, which is inserted when the record is sent. */
const headFields: readonly object[] = [
  { name: 'eventId', type: 'string' },
  { name: 'eventType', type: 'string' },
  time('occurredAt'),
];

/** Source and actor, the trace, and the rest. */
const metadataFields: readonly object[] = [
  group('source', 'Source', ['serviceName', 'serviceVersion', 'hostname']),
  group('actor', 'Actor', ['userId', 'sessionId']),
  group('trace', 'Trace', ['traceId', 'spanId', 'parentSpanId']),
  nullable('correlationId'),
  nullable('clientIp'),
  { name: 'tags', type: { type: 'map', values: 'string' } },
];

const tailFields = (payload: AvroSchema): readonly object[] => [
  { name: 'severity', type: 'string' },
  metadataField(metadataFields),
  { name: 'payload', type: payload },
];

/** An event type as an Avro name: `order.created` becomes `order_created`. */
export function recordName(eventType: string): string {
  return `${namespace}.${eventType.replace(/[^A-Za-z0-9_]/g, '_').replace(/^(?=\d|$)/, '_')}`;
}

/** The schema of an event type: the envelope's fields at the top level. `payload`: `string` for JSON text. */
export function recordSchema(eventType: string, payload: AvroSchema): AvroSchema {
  const fields = [...headFields, time('publishedAt'), ...tailFields(payloadSchema(eventType, payload))];
  return partOf(eventType, fields);
}

/** Namespace for payload names without one that clash with the envelope's. */
const payloadNamespace = `${namespace}.payload`;
const envelopeNames = ['Metadata', 'Source', 'Actor', 'Trace'];
const primitives = new Set(['null', 'boolean', 'int', 'long', 'float', 'double', 'bytes', 'string']);

/**
 * The payload's schema as part of the record. If it defines one of the envelope's names, all its names without a namespace get one.
 */
function payloadSchema(eventType: string, payload: AvroSchema): AvroSchema {
  const taken = new Set([...envelopeNames, recordName(eventType).slice(namespace.length + 1)]);
  let collides = false;
  visitNames(payload, (name) => {
    collides ||= taken.has(name);
    return name;
  });
  return collides ? visitNames(payload, (name) => `${payloadNamespace}.${name}`) : payload;
}

/** Visits each name without a namespace, in definitions and references. */
function visitNames(schema: AvroSchema, rename: (name: string) => string): AvroSchema {
  if (typeof schema === 'string')
    return primitives.has(schema) || schema.includes('.') ? schema : rename(schema);
  if (Array.isArray(schema)) return schema.map((each) => visitNames(each, rename));
  if (typeof schema !== 'object' || schema === null) return schema;
  const {
    type,
    name,
    namespace: own,
    fields,
    items,
    values,
  } = schema as Readonly<Record<string, AvroSchema>>;
  const isNamed =
    typeof name === 'string' &&
    (type === 'record' || type === 'enum' || type === 'fixed' || type === 'error');
  if (isNamed && (name.includes('.') || (own !== undefined && own !== ''))) return schema;
  const inner = (each: AvroSchema | undefined): AvroSchema => visitNames(each as AvroSchema, rename);
  const { namespace: _, ...rest } = schema as Readonly<Record<string, unknown>>;
  return {
    ...(isNamed ? rest : schema),
    ...(isNamed && { name: rename(name) }),
    ...(!isNamed && type !== undefined && type !== 'array' && type !== 'map' && { type: inner(type) }),
    ...(type === 'array' && { items: inner(items) }),
    ...(type === 'map' && { values: inner(values) }),
    ...(Array.isArray(fields) && {
      fields: fields.map((field: object) => ({
        ...field,
        type: inner((field as { type: AvroSchema }).type),
      })),
    }),
  };
}

function partOf(eventType: string, fields: readonly object[]): AvroSchema {
  return { type: 'record', name: recordName(eventType), fields };
}

/** Confluent's names without their suffix. */
type SubjectNameStrategy = 'topic' | 'record' | 'topic-record';

/** The subject under which a value's schema is registered. */
export function subjectOf(strategy: SubjectNameStrategy, topic: string, name: string): string {
  if (strategy === 'topic') return `${topic}-value`;
  return strategy === 'record' ? name : `${topic}-${name}`;
}

interface SchemaIdsOptions {
  readonly registry: SchemaRegistry;
  readonly strategy: SubjectNameStrategy;
  /** False: the schema must be registered already. */
  readonly autoRegister: boolean;
  /** Called once for each outage, and for its end. */
  readonly onAway: (message: string) => void;
  readonly onBack: () => void;
  /** Called for each refused schema. */
  readonly onRefused: (error: SvcError) => void;
}

/** The registry's ids of the schemas in use. Each is requested once. */
interface SchemaIds {
  /** Synchronous. `undefined`: not known yet. */
  known(codec: EventCodec, topic: string): number | undefined;
  /** Requests an unknown id. Rejects as the registry does. */
  ask(codec: EventCodec, topic: string): Promise<number>;
}

/** Retry interval while the registry is away. */
const awayMs = 1_000;
/** Retry interval for a refused schema: the compatibility rules of its subject may have changed. */
const refusedMs = 10_000;

type Failed = { readonly error: SvcError; readonly untilMs: number };

function createSchemaIds({ registry, strategy, autoRegister, ...options }: SchemaIdsOptions): SchemaIds {
  const { onAway, onBack, onRefused } = options;
  const ids = new Map<string, number>();
  const failures = new Map<string, Failed>();
  const asking = new Map<string, Promise<number>>();
  let isAway = false;

  const keyOf = (codec: EventCodec, topic: string): string => subjectOf(strategy, topic, codec.name);

  async function answer(key: string, subject: Subject): Promise<number> {
    try {
      const id = await (autoRegister ? registry.register(subject) : registry.lookUp(subject));
      ids.set(key, id);
      failures.delete(key);
      heard(false);
      return id;
    } catch (thrown) {
      const error = asError(thrown, registry.address);
      const refused = error.code === 'SVC_SERIALIZE_SCHEMA_REFUSED';
      failures.set(key, { error, untilMs: clock.monotonic() + (refused ? refusedMs : awayMs) });
      heard(!refused, error.message);
      if (refused) onRefused(error);
      throw error;
    } finally {
      asking.delete(key);
    }
  }

  function heard(away: boolean, message = ''): void {
    if (away === isAway) return;
    isAway = away;
    if (away) onAway(message);
    else onBack();
  }

  return {
    known: (codec, topic) => ids.get(`${keyOf(codec, topic)} ${codec.eventType}`),
    async ask(codec, topic) {
      const subject = keyOf(codec, topic);
      const key = `${subject} ${codec.eventType}`;
      const id = ids.get(key);
      if (id !== undefined) return id;
      const failed = failures.get(key);
      if (failed !== undefined && clock.monotonic() < failed.untilMs) throw failed.error;
      let asked = asking.get(key);
      if (asked === undefined) {
        asked = answer(key, { subject, schema: codec.schema });
        asking.set(key, asked);
      }
      return asked;
    },
  };
}

function asError(thrown: unknown, address: string): SvcError {
  if (thrown instanceof SvcError) return thrown;
  return new SvcError('SVC_SERIALIZE_REGISTRY_AWAY', `schema registry at ${address}: an unexpected error`);
}

const maxLevels = 64;

/** Returned if only `JSON.parse(JSON.stringify(value))` itself can tell its result. */
const notPlain = Symbol('not plain');

/**
 * The payload as after a round trip through JSON, without making it; bytes (Buffer) and BigInt stay. Returns the value itself, or a
 * copy if JSON changes parts.
 *
 * Returns `notPlain` for `toJSON`, boxed values, NaN and Infinity, array items without JSON, and texts that look like svc's
 * ciphertexts, except those in `sealed`.
 */
function plainJson(value: unknown, sealed: readonly string[], level = 0): unknown {
  switch (typeof value) {
    case 'string':
      return mayBeOurs(value) && ownText.mark(value) !== value && !sealed.includes(value) ? notPlain : value;
    case 'number':
      // JSON has no negative zero.
      return Number.isFinite(value) ? value + 0 : notPlain;
    case 'boolean':
      return value;
    case 'object':
      if (value === null) return null;
      break;
    default:
      return notPlain;
  }
  if (value instanceof NativeValue) return value.value;
  if (level > maxLevels || (value as { toJSON?: unknown }).toJSON !== undefined) return notPlain;
  return Array.isArray(value) ? listOf(value, sealed, level) : fieldsOf(value, sealed, level);
}

/** Compares the start with `ENC(`, `HASH(`, or a backslash before either. Most texts need no further check. */
function mayBeOurs(text: string): boolean {
  const first = text.charCodeAt(0);
  return first === 0x45 || first === 0x48 || first === 0x5c;
}

/** Copied from the first item that JSON changes. */
function listOf(list: readonly unknown[], sealed: readonly string[], level: number): unknown {
  let copy: unknown[] | undefined;
  for (let index = 0; index < list.length; index++) {
    const given = list[index];
    const item = plainJson(given, sealed, level + 1);
    if (item === notPlain) return notPlain;
    if (copy === undefined && !Object.is(item, given)) copy = list.slice(0, index);
    copy?.push(item);
  }
  return copy ?? list;
}

function fieldsOf(object: object, sealed: readonly string[], level: number): unknown {
  const isBare = Object.getPrototypeOf(object) === Object.prototype;
  if (!isBare && types.isBoxedPrimitive(object)) return notPlain;
  const fields = object as Readonly<Record<string, unknown>>;
  const names = Object.keys(object);
  // A schema may require fields that an object inherits from its class.
  let copy: Record<string, unknown> | undefined = isBare ? undefined : {};
  for (let index = 0; index < names.length; index++) {
    const name = names[index] as string;
    const field = fields[name];
    const plain = field === undefined ? undefined : plainJson(field, sealed, level + 1);
    // Assigning `__proto__` creates no field. An object with `rawJSON` may be text that JSON copies verbatim.
    if (plain === notPlain || name === '__proto__' || name === 'rawJSON') return notPlain;
    if (copy === undefined && (plain === undefined || !Object.is(plain, field))) {
      copy = {};
      for (const before of names.slice(0, index)) copy[before] = fields[before];
    }
    if (copy !== undefined && plain !== undefined) copy[name] = plain;
  }
  return copy ?? object;
}

/**
 * A payload as JSON from which a typed schema can be filled. Bytes are `{"type":"Buffer","data":[…]}`, as in Node. Other values
 * that JSON lacks are `{"type":"BigInt","data":"1"}` or `{"type":"Number","data":"NaN"}`. `undefined`: JSON omits the whole
 * payload.
 */
function typedJson(payload: unknown, sealed: readonly string[]): string | undefined {
  const ours = new Set(sealed);
  return JSON.stringify(payload, function (this: Record<string, unknown>, key: string, value: unknown) {
    const given = this[key];
    if (given instanceof NativeValue) {
      const { value: native } = given;
      return typeof native === 'bigint' ? { type: 'BigInt', data: String(native) } : { ...native.toJSON() };
    }
    if (typeof value === 'number' && !Number.isFinite(value)) return { type: 'Number', data: String(value) };
    return typeof value === 'string' && !ours.has(value) ? ownText.mark(value) : value;
  });
}
