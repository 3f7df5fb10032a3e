import { isoTime } from '../envelope/envelope.ts';
import { SvcError } from '../ground/errors.ts';
import { markedJson, mayHoldOwnText } from '../protect/own-text.ts';
import type { ProtectedEnvelope } from '../protect/protect.ts';
import { type EventForm, EventValue, type Serializer, schemaHeader } from './serializer.ts';

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

/** Throws `SVC_PROTECT_READ_ERROR`. */
export function payloadJson({ payload, sealed }: Pick<ProtectedEnvelope, 'payload' | 'sealed'>): string {
  return readJson(() => {
    // `toJSON` can return undefined.
    const json: string | undefined = JSON.stringify(payload);
    return json === undefined || !mayHoldOwnText(json, sealed) ? json : markedJson(payload, sealed);
  });
}

/** Throws `SVC_PROTECT_READ_ERROR` if `write` throws or returns `undefined`. */
export function readJson(write: () => string | undefined): string {
  try {
    const sent = write();
    if (sent !== undefined) return sent;
  } catch {
    // A getter or proxy may throw, with a value in its message.
  }
  throw new SvcError(
    'SVC_PROTECT_READ_ERROR',
    'a getter, toJSON or proxy of the payload threw, or gave nothing, while it was read',
  );
}
