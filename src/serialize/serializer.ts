// serialize/: turns a protected envelope into bytes, once.

import { SvcError } from '../ground/errors.ts';
import { isoTime } from '../ground/event-fields.ts';
import { ownText } from '../protect/own-text.ts';
import type { ProtectedEnvelope } from '../protect/protect.ts';

/** One event, serialized once. The Kafka record, the dead letter, the backup and the outbox row hold these bytes. */
export interface SerializedEvent {
  readonly eventId: string;
  readonly eventType: string;
  /** `undefined`: the default topic. */
  readonly topic: string | undefined;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly value: EventValue;
}

/**
 * Header of a record that is still JSON, because the schema registry has not returned its schema's id yet. The value names the
 * schema. The record is encoded before it is sent, wherever it waited.
 */
export const schemaHeader = 'svc-avro-schema';

/** Parts of a record beside its value. */
export interface RecordParts {
  readonly topic: string;
  /** `undefined`: the event id is used. */
  readonly key?: string | undefined;
  /** From the application. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly trace: { readonly traceparent: string; readonly tracestate?: string | undefined };
}

/** PORT: turns a protected envelope into bytes. Synchronous; called once per event, on the caller's path. */
export interface Serializer {
  /** Throws an `SvcError` without values if the event cannot be represented: it is refused. */
  serialize(envelope: ProtectedEnvelope, record: RecordParts): EventValue;
}

/** Properties of a format. */
export interface EventForm {
  /** Record headers that identify the format: `content-type`. */
  readonly headers: Readonly<Record<string, string>>;
  /** `latin1`: binary format, one character per byte. */
  readonly encoding: 'utf8' | 'latin1';
  /** The value of `publishedAt`. */
  publishedAt(nowMs: number): string;
  /** The header with `publishedAt`, if the value does not contain it. */
  readonly publishedAtHeader?: string;
  /** Binary formats: the event as JSON, for people. */
  toJson?(value: Buffer): unknown;
}

/** Events share buffers of this size. A buffer is retained until its last event ends, so it is small. */
const sharedBytes = 16_384;
/** Longer texts get their own buffer. */
const maxShared = sharedBytes / 4;

/** Reserved for `publishedAt` in JSON, so that a value is copied at once. */
const gapBytes = 24;
/** Bytes that the last character of a cut text may have needed. */
const maxBytesOfCharacter = 4;

let shared: Buffer = Buffer.alloc(0);
let used = 0;

/**
 * The bytes of an event, except `publishedAt`, which is set when the record is sent. They are written at once: the garbage
 * collector would copy waiting strings repeatedly, and track one buffer per event.
 */
export class EventValue {
  readonly form: EventForm;
  /** Without `publishedAt`. */
  readonly length: number;
  private readonly bytes: Buffer;
  private readonly start: number;
  /** Position of the gap. */
  private readonly middle: number;

  /** @param after in parts, because joining them would copy the payload once more */
  constructor(form: EventForm, before: string, after: readonly string[]) {
    const { encoding } = form;
    let characters = before.length + gapBytes;
    for (const piece of after) characters += piece.length;
    this.form = form;
    if (characters > maxShared) {
      this.bytes = Buffer.allocUnsafeSlow(gapBytes + byteLength(before, after, encoding));
      this.start = 0;
    } else {
      if (characters > shared.length - used) nextPiece();
      this.bytes = shared;
      this.start = used;
    }
    let middle = this.start + this.bytes.write(before, this.start, encoding);
    let end = writeAll(this.bytes, middle + gapBytes, after, encoding);
    if (this.bytes === shared) {
      // The write shows whether it fits, because counting costs as much.
      if (end > shared.length - maxBytesOfCharacter) {
        nextPiece();
        this.bytes = shared;
        this.start = 0;
        middle = shared.write(before, 0, encoding);
        end = writeAll(shared, middle + gapBytes, after, encoding);
      }
      used = end;
    }
    this.middle = middle;
    this.length = end - this.start - gapBytes;
  }

  /** Returns the position after the value. */
  write(to: Buffer, start: number, publishedAt: string): number {
    const { bytes, middle, length } = this;
    const end = this.start + length + gapBytes;
    const gap = start + middle - this.start;
    if (publishedAt.length === gapBytes) {
      bytes.copy(to, start, this.start, end);
      for (let at = 0; at < gapBytes; at++) to[gap + at] = publishedAt.charCodeAt(at);
      return start + length + gapBytes;
    }
    bytes.copy(to, start, this.start, middle);
    const at = gap + to.write(publishedAt, gap, 'latin1');
    return at + bytes.copy(to, at, middle + gapBytes, end);
  }
}

function nextPiece(): void {
  shared = Buffer.allocUnsafeSlow(sharedBytes);
  used = 0;
}

/** Returns the position after the texts. Text beyond the end is cut off. */
function writeAll(
  bytes: Buffer,
  start: number,
  pieces: readonly string[],
  encoding: EventForm['encoding'],
): number {
  let end = start;
  for (const piece of pieces) {
    if (end >= bytes.length) return end;
    end += bytes.write(piece, end, encoding);
  }
  return end;
}

function byteLength(before: string, after: readonly string[], encoding: EventForm['encoding']): number {
  let bytes = Buffer.byteLength(before, encoding);
  for (const piece of after) bytes += Buffer.byteLength(piece, encoding);
  return bytes;
}

export const jsonForm: EventForm = {
  headers: { 'content-type': 'application/json' },
  encoding: 'utf8',
  publishedAt: isoTime,
};

/**
 * The envelope as JSON, concatenated from parts. Constant parts were serialized at start, ids and times need no escaping, and the
 * payload is stringified once.
 */
export const jsonSerializer: Serializer = { serialize: (envelope) => toJson(envelope, jsonForm) };

/** `form`: JSON, or a format based on it. `payload` is JSON text. */
export function toJson(
  envelope: ProtectedEnvelope,
  form: EventForm,
  payload: string = payloadJson(envelope),
): EventValue {
  const { template, origin, trace } = envelope;
  if (origin !== around.origin || template !== around.template) around = textAround(template, origin);
  return new EventValue(
    form,
    `{"eventId":"${envelope.eventId}"${template.afterEventId}${envelope.occurredAt}","publishedAt":"`,
    [
      `${around.before}${id(trace.traceId)},"spanId":${id(trace.spanId)},"parentSpanId":${id(trace.parentSpanId)}${around.after}`,
      payload,
      '}',
    ],
  );
}

/** The text before and after an event's trace. Consecutive events of a request share it. */
interface AroundTrace extends Partial<Pick<ProtectedEnvelope, 'template' | 'origin'>> {
  readonly before: string;
  readonly after: string;
}

let around: AroundTrace = { before: '', after: '' };

function textAround(
  template: ProtectedEnvelope['template'],
  origin: ProtectedEnvelope['origin'],
): AroundTrace {
  const tags = origin.tags === null ? '{}' : JSON.stringify(origin.tags);
  const before = [template.afterPublishedAt, text(origin.userId), ',"sessionId":', text(origin.sessionId)];
  const after = ['},"correlationId":', text(origin.correlationId), ',"clientIp":', text(origin.clientIp)];
  return {
    template,
    origin,
    // Joined: V8 would keep a sum as a tree of its parts, and walk it for each event.
    before: [...before, '},"trace":{"traceId":'].join(''),
    after: [...after, ',"tags":', tags, '},"payload":'].join(''),
  };
}

/** A process without Avro cannot send a record that waits for its schema. */
export function needsAvro(headers: Readonly<Record<string, string>>): SvcError {
  return new SvcError(
    'SVC_SERIALIZE_SCHEMA_REFUSED',
    `it waits for the schema ${headers[schemaHeader]} and can be sent only as Avro: set svc.serde.type: AVRO and svc.serde.schema-registry-url`,
  );
}

/** Usual ids and addresses, which need no escaping. */
const plain = /^[\w.:@ -]*$/;

function text(value: string | null): string {
  if (value === null) return 'null';
  return plain.test(value) ? `"${value}"` : JSON.stringify(value);
}

/** Trace and span ids are hexadecimal and need no escaping. */
function id(value: string | null): string {
  return value === null ? 'null' : `"${value}"`;
}

/** Throws `SVC_PROTECT_READ_ERROR`. `write` returns `undefined` for an empty payload. */
export function payloadJson(
  { payload, sealed }: Pick<ProtectedEnvelope, 'payload' | 'sealed'>,
  write: (payload: unknown, sealed: readonly string[]) => string | undefined = jsonOf,
): string {
  try {
    const sent = write(payload, sealed);
    if (sent !== undefined) return sent;
  } catch {
    // A getter or proxy may throw, with a value in its message.
  }
  throw new SvcError(
    'SVC_PROTECT_READ_ERROR',
    'a getter, toJSON or proxy of the payload threw, or gave nothing, while it was read',
  );
}

function jsonOf(payload: unknown, sealed: readonly string[]): string | undefined {
  // `toJSON` can return undefined.
  const json: string | undefined = JSON.stringify(payload);
  return json === undefined || !mayHoldOwnText(json, sealed) ? json : markedJson(payload, sealed);
}

/**
 * Whether a JSON text may hold a text that `ownText.mark` changes. Each of the `sealed` texts stands once in `json`, so counting
 * is enough and no value is parsed.
 */
function mayHoldOwnText(json: string, sealed: readonly string[]): boolean {
  let ofOurForm = 0;
  for (let bracket = json.indexOf('('); bracket !== -1; bracket = json.indexOf('(', bracket + 1))
    if (isOurForm(json, bracket)) ofOurForm++;
  return ofOurForm !== sealed.length;
}

/** Whether the bracket belongs to a text of that form, or to a field name. */
function isOurForm(json: string, bracket: number): boolean {
  const last = json.charCodeAt(bracket - 1);
  if (last !== 0x43 && last !== 0x48) return false;
  const word = last === 0x43 ? 'ENC' : 'HASH';
  let start = bracket - word.length;
  if (!json.startsWith(word, start)) return false;
  while (json.charCodeAt(start - 1) === 0x5c) start--;
  return json.charCodeAt(start - 1) === 0x22;
}

/** A payload as JSON, with the application's own texts marked. `undefined` if it is empty. */
function markedJson(payload: unknown, sealed: readonly string[]): string | undefined {
  const ours = new Set(sealed);
  return JSON.stringify(payload, (_, value: unknown) =>
    typeof value === 'string' && !ours.has(value) ? ownText.mark(value) : value,
  );
}
