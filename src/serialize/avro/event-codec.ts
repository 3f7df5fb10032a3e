import { SvcError } from '../../ground/errors.ts';
import { type AvroType, type Explaining, exactType, type LargeNumbers } from './exact-types.ts';
import { notPlain } from './plain-json.ts';

/** An envelope as its record has it. Times in milliseconds since the epoch. */
export interface AvroEvent {
  readonly eventId: string;
  readonly eventType: string;
  readonly occurredAt: number;
  readonly severity: string;
  readonly metadata: {
    readonly source: object;
    readonly actor: object;
    readonly trace: object;
    readonly correlationId: string | null;
    readonly clientIp: string | null;
    readonly tags: Readonly<Record<string, string>>;
  };
  readonly payload: AvroPayload;
}

/** Each is asked for at most once, and only where the schema needs it. */
interface AvroPayload {
  readonly json: () => string;
  /** The same as JSON would give it back; `notPlain` where that is not known without `json`. Left out: never known. */
  readonly plain?: () => unknown;
}

/** The bytes of a record around `publishedAt`, a character for each (`latin1`). */
interface AvroText {
  readonly head: string;
  readonly tail: string;
}

/** One record schema, and what writes and reads it. */
export interface EventCodec {
  readonly eventType: string;
  /** The payload is JSON in a string. */
  readonly isText: boolean;
  /** Full name of the record. */
  readonly name: string;
  /** As JSON, as it is registered. */
  readonly schema: string;
  /** Throws `SVC_SERIALIZE_SCHEMA_MISFIT` for a payload that does not fit, with the path of the field. */
  encode(event: AvroEvent): AvroText;
  /** The envelope out of a record without its prefix. */
  decode(bytes: Buffer): unknown;
}

/** Magic byte, and four bytes of the schema's id. */
export const prefixBytes = 5;

export function prefixOf(id: number): string {
  const prefix = Buffer.alloc(prefixBytes);
  prefix.writeUInt32BE(id, 1);
  return prefix.toString('latin1');
}

/** A long of Avro: zigzag, then seven bits a byte. */
export function timeText(ms: number): string {
  // Exact within 2^52 ms, the year 144,000.
  let rest = ms < 0 ? -2 * ms - 1 : 2 * ms;
  let text = '';
  while (rest > 0x7f) {
    text += String.fromCharCode((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  return text + String.fromCharCode(rest);
}

/** @param payload the schema of a typed payload; left out, the payload is JSON in a string */
export function createEventCodec(eventType: string, given?: AvroSchema): EventCodec {
  const isText = given === undefined;
  const payload = given === undefined ? undefined : payloadSchema(eventType, given);
  const schema = recordSchema(eventType, given ?? 'string');
  const head = compiled(partOf(eventType, headFields.map(plainTime)));
  const tail = compiled(
    partOf(eventType, tailFields(payload === undefined ? 'string' : forWriting(payload))),
  );
  const payloadOf = ({ json, plain }: AvroPayload): unknown => {
    if (isText) return json();
    const known = plain?.() ?? notPlain;
    return known === notPlain ? JSON.parse(json()) : known;
  };
  // First: a schema that is none has its own message.
  const decode = decoderOf(compiled(schema));
  return {
    eventType,
    isText,
    name: recordName(eventType),
    schema: JSON.stringify(schema),
    encode(event) {
      const { severity, metadata, payload } = event;
      return {
        head: textOf(head, event),
        tail: textOf(tail, { severity, metadata, payload: payloadOf(payload) }),
      };
    },
    decode,
  };
}

/** What reads records of a schema: into an envelope as JSON has it. Throws `SVC_SERIALIZE_NOT_AVRO` where the schema is none. */
export function createDecoder(schema: string, large: LargeNumbers = 'text'): (bytes: Buffer) => unknown {
  let type: AvroType;
  try {
    type = exactType(JSON.parse(schema), large);
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError('SVC_SERIALIZE_NOT_AVRO', 'its schema is none of Avro');
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
      // Its message holds values.
      throw new SvcError('SVC_SERIALIZE_NOT_AVRO', 'the bytes end early, or are of another schema');
    }
    // What others write need not be a record.
    if (type.typeName !== 'record') return value;
    const record = { ...(value as object) } as Record<string, unknown>;
    const { payload } = record;
    if (!isText || typeof payload !== 'string') return record;
    try {
      return { ...record, payload: JSON.parse(payload) };
    } catch {
      throw new SvcError('SVC_SERIALIZE_NOT_AVRO', 'its payload is no JSON text');
    }
  };
}

function compiled(schema: AvroSchema): AvroType {
  return exactType(schema);
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
    // What is wrong stands in `path`.
  }
  const says = `${wanted === '' ? 'does not fit' : `is no ${wanted}`}${why === undefined ? '' : `: ${why}`}`;
  return new SvcError(
    'SVC_SERIALIZE_SCHEMA_MISFIT',
    `the payload does not fit its Avro schema: ${shownPath(path, type)} ${says}`,
  );
}

/** `logical:date` is a date, a union `union:unwrapped`. */
function nameOf({ typeName, underlyingType }: AvroType & { readonly underlyingType?: AvroType }): string {
  const [name = '', logical = ''] = typeName.split(':');
  if (name !== 'logical') return name;
  return logical === 'undefined' ? (underlyingType?.typeName ?? '') : logical;
}

/** Names of fields and positions; a name in a map is the event's own and may be a value. */
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

/** Of a union the branch that has something inside. */
function unionBranch(type: Fielded | undefined): Fielded | undefined {
  return type?.types?.find((each) => each.fields ?? each.itemsType ?? each.valuesType) ?? type;
}

/** Head and tail are put together from ready numbers. */
function plainTime(field: object): object {
  const { type } = field as { type: unknown };
  return typeof type === 'object' ? { ...field, type: 'long' } : field;
}

/** A field that may be null may be left out as well, as in JSON: the bytes are the same. */
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

/** A schema as JSON has it. */
export type AvroSchema = string | readonly AvroSchema[] | { readonly [name: string]: unknown };

const namespace = 'svc.events';
const nullable = (name: string): object => ({ name, type: ['null', 'string'], default: null });
const time = (name: string): object => ({ name, type: { type: 'long', logicalType: 'timestamp-millis' } });
const group = (name: string, type: string, fields: readonly string[]): object => ({
  name,
  type: { type: 'record', name: type, fields: fields.map(nullable) },
});

/** What stands before `publishedAt`, which is put in between when the record is handed over. */
const headFields: readonly object[] = [
  { name: 'eventId', type: 'string' },
  { name: 'eventType', type: 'string' },
  time('occurredAt'),
];

const tailFields = (payload: AvroSchema): readonly object[] => [
  { name: 'severity', type: 'string' },
  {
    name: 'metadata',
    type: {
      type: 'record',
      name: 'Metadata',
      fields: [
        group('source', 'Source', ['serviceName', 'serviceVersion', 'hostname']),
        group('actor', 'Actor', ['userId', 'sessionId']),
        group('trace', 'Trace', ['traceId', 'spanId', 'parentSpanId']),
        nullable('correlationId'),
        nullable('clientIp'),
        { name: 'tags', type: { type: 'map', values: 'string' } },
      ],
    },
  },
  { name: 'payload', type: payload },
];

/** An event type as a name of Avro: `order.created` is `order_created`. */
export function recordName(eventType: string): string {
  return `${namespace}.${eventType.replace(/[^A-Za-z0-9_]/g, '_').replace(/^(?=\d|$)/, '_')}`;
}

/** The schema of an event type: the envelope's fields at the top. `payload`: `string` for the payload as JSON text. */
export function recordSchema(eventType: string, payload: AvroSchema): AvroSchema {
  const fields = [...headFields, time('publishedAt'), ...tailFields(payloadSchema(eventType, payload))];
  return partOf(eventType, fields);
}

/** Where names of a payload are that have no namespace, and would be names of the envelope there. */
const payloadNamespace = `${namespace}.payload`;
const envelopeNames = ['Metadata', 'Source', 'Actor', 'Trace'];
const primitives = new Set(['null', 'boolean', 'int', 'long', 'float', 'double', 'bytes', 'string']);

/**
 * The schema of a payload as a part of the record: as it is, unless it defines a name that is one of the envelope's there. Then all of
 * its names without a namespace get one.
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

/** Each name that is in no namespace, where it is defined and where it is used. */
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
