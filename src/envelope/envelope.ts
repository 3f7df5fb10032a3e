// envelope/: the fields around the payload of an event, and unique ids.

import { SvcError } from '../ground/errors.ts';
import { attributePrefix, isoTime, type Severity, severities } from '../ground/event-fields.ts';

/** The publishing service. `null`: unknown. */
export interface Source {
  readonly serviceName: string | null;
  readonly serviceVersion: string | null;
  readonly hostname: string | null;
}

interface Trace {
  readonly traceId: string | null;
  readonly spanId: string | null;
  readonly parentSpanId: string | null;
}

/** Identity of the caller, and source of the call. `null`: unknown; values are never invented. */
export interface Origin {
  readonly userId: string | null;
  readonly sessionId: string | null;
  readonly correlationId: string | null;
  readonly clientIp: string | null;
  /** `null`: no tags; written as `{}`. */
  readonly tags: Readonly<Record<string, string>> | null;
}

/** One event before protection. Never leaves the process: only a `ProtectedEnvelope` can be serialized. */
export interface Envelope {
  readonly eventId: string;
  readonly template: EnvelopeTemplate;
  /** When the call finished: ISO 8601, UTC, with milliseconds. */
  readonly occurredAt: string;
  readonly trace: Trace;
  readonly origin: Origin;
  readonly payload: unknown;
}

/** The constant parts of a target's events, serialized once at start. */
interface EnvelopeTemplate {
  readonly eventType: string;
  readonly severity: Severity;
  readonly source: Source;
  /** `,"eventType":"…","occurredAt":"` */
  readonly afterEventId: string;
  /** `","severity":"INFO","metadata":{"source":{…},"actor":{"userId":` */
  readonly afterPublishedAt: string;
}

/** Start of the `content-type` in structured mode; parameters and case vary. */
const cloudEventsType = 'application/cloudevents';

/**
 * CloudEvents attributes for the envelope's fields beyond the core ones. Documented extensions keep their names: severity, recorded
 * time, correlation and distributed tracing.
 */
export const extensions = {
  publishedAt: 'recordedtime',
  severity: 'severitytext',
  severityNumber: 'severitynumber',
  serviceName: 'servicename',
  serviceVersion: 'serviceversion',
  hostname: 'hostname',
  userId: 'userid',
  sessionId: 'sessionid',
  correlationId: 'correlationid',
  clientIp: 'clientip',
  /** JSON text, because names of tags need not be valid attribute names. */
  tags: 'tags',
  parentSpanId: 'parentspanid',
  traceparent: 'traceparent',
  tracestate: 'tracestate',
} as const;

interface EnvelopesOptions<Context> {
  /** Of all events. */
  readonly source: Source;
  /** Receives `context` of the event. */
  readonly readOrigin: (context?: Context) => Origin;
}

interface Happened<Context> {
  readonly eventType: string;
  readonly severity: Severity;
  readonly payload: unknown;
  readonly context?: Context | undefined;
}

/** Builds the envelopes of one service. Runs on the caller's path: one object, nothing serialized. */
export function createEnvelopes<Context = never>({ source, readOrigin }: EnvelopesOptions<Context>) {
  const templateOf = createTemplates(source);
  /** `occurredAtMs`: when the call finished, since the Unix epoch. */
  return function buildEnvelope(
    eventId: string,
    { eventType, severity, payload, context }: Happened<Context>,
    trace: Trace,
    occurredAtMs: number,
  ): Envelope {
    return {
      eventId,
      template: templateOf(eventType, severity),
      occurredAt: isoTime(occurredAtMs),
      trace,
      origin: readOrigin(context),
      payload,
    };
  };
}

interface TemplateOptions {
  readonly eventType: string;
  readonly severity: Severity;
  readonly source: Source;
}

/** Serializes the constant parts of a target's events. Called at start, and for each new event type. */
function createTemplate({ eventType, severity, source }: TemplateOptions): EnvelopeTemplate {
  const { serviceName, serviceVersion, hostname } = source;
  const actor = ',"actor":{"userId":';
  const sourceText = JSON.stringify({ serviceName, serviceVersion, hostname });
  return {
    eventType,
    severity,
    source,
    // Joined: V8 would keep a sum as a tree of its parts, and walk it for each event.
    afterEventId: [',"eventType":', JSON.stringify(eventType), ',"occurredAt":"'].join(''),
    afterPublishedAt: ['","severity":"', severity, '","metadata":{"source":', sourceText, actor].join(''),
  };
}

/** Limit of cached templates, because `publish()` accepts any event type. Further ones are serialized for each event. */
const maxKept = 1000;

/** Caches the templates of one service. */
function createTemplates(source: Source): (eventType: string, severity: Severity) => EnvelopeTemplate {
  // Nested, because a concatenated key would be hashed for each event.
  const kept = new Map<Severity, Map<string, EnvelopeTemplate>>();
  let keptCount = 0;
  return (eventType, severity) => {
    const known = kept.get(severity)?.get(eventType);
    if (known !== undefined) return known;
    const template = createTemplate({ eventType, severity, source });
    if (keptCount < maxKept) {
      keptCount++;
      const ofSeverity = kept.get(severity) ?? new Map<string, EnvelopeTemplate>();
      kept.set(severity, ofSeverity.set(eventType, template));
    }
    return template;
  };
}

type TextHeaders = Readonly<Record<string, string | undefined>>;

/** The attributes of a CloudEvent, and `data`. */
export type CloudEvent = Readonly<Record<string, unknown>>;

/** True for a CloudEvent in JSON form, and for one of the official SDK. */
export function isCloudEvent(
  value: unknown,
): value is CloudEvent & { readonly id: string; readonly type: string } {
  if (!isObject(value)) return false;
  const { specversion, id, type, source } = value as CloudEvent;
  return [specversion, id, type, source].every((text) => typeof text === 'string' && text !== '');
}

/**
 * The CloudEvent in a record, or `undefined`. Structured mode is recognized by the content type, binary mode by the required
 * attributes. Throws `SVC_CONSUMER_NOT_AN_ENVELOPE` if no envelope can be made of it.
 */
export function cloudEventIn(value: unknown, headers: TextHeaders): CloudEvent | undefined {
  if (isStructured(headers)) {
    if (!isCloudEvent(value))
      throw notAnEnvelope('its CloudEvent lacks id, type, source or specversion, or is a batch');
    if ('data_base64' in value) throw notAnEnvelope('the data of its CloudEvent is not JSON');
    return value;
  }
  // A dead letter has the attributes of its original event.
  if (headers.originalTopic !== undefined) return undefined;
  const attributes: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(headers))
    if (name.startsWith(attributePrefix)) attributes[name.slice(attributePrefix.length)] = text;
  return isCloudEvent(attributes) ? { ...attributes, data: value } : undefined;
}

function isStructured(headers: TextHeaders): boolean {
  return headers['content-type']?.toLowerCase().startsWith(cloudEventsType) === true;
}

/** The `metadata` of an event as consumers read it. Unknown values are `null`. */
export interface EventMetadata {
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
}

/** The envelope that svc would have written; for other producers, as much as the attributes give. */
function envelopeOf(event: CloudEvent, timestampMs: number): object {
  const text = (name: string): string | null => {
    const value = event[name];
    return typeof value === 'string' ? value : null;
  };
  const recordedAt = inUtc(text(extensions.publishedAt)) ?? timeText(timestampMs);
  const [, traceId = null, spanId = null] =
    /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-/.exec(text(extensions.traceparent) ?? '') ?? [];
  const severity = severities.find((each) => each === event[extensions.severity]) ?? 'INFO';
  return {
    eventId: event.id,
    eventType: event.type,
    occurredAt: inUtc(text('time')) ?? recordedAt,
    publishedAt: recordedAt,
    severity,
    metadata: {
      source: {
        serviceName: text(extensions.serviceName),
        serviceVersion: text(extensions.serviceVersion),
        hostname: text(extensions.hostname),
      },
      actor: { userId: text(extensions.userId), sessionId: text(extensions.sessionId) },
      trace: { traceId, spanId, parentSpanId: text(extensions.parentSpanId) },
      correlationId: text(extensions.correlationId),
      clientIp: text(extensions.clientIp),
      tags: tagsOf(text(extensions.tags)),
    },
    payload: event.data ?? null,
  };
}

/** Other producers may write another offset. A time in UTC keeps its digits. */
function inUtc(time: string | null): string | null {
  return time === null || /z$/i.test(time) ? time : timeText(Date.parse(time));
}

function timeText(ms: number): string | null {
  return Math.abs(ms) <= 8_640_000_000_000_000 ? new Date(ms).toISOString() : null;
}

function tagsOf(json: string | null): object {
  try {
    const tags: unknown = JSON.parse(json ?? '{}');
    if (isObject(tags) && Object.values(tags).every((tag) => typeof tag === 'string')) return tags;
  } catch {
    // Tags of another producer.
  }
  return {};
}

/** The envelope in a record, of its parsed value. A value that is not a CloudEvent is returned as it is. */
export function toEnvelope(document: unknown, headers: TextHeaders, timestampMs = Number.NaN): unknown {
  const event = cloudEventIn(document, headers);
  return event === undefined ? document : envelopeOf(event, timestampMs);
}

export function notAnEnvelope(why: string): SvcError {
  return new SvcError('SVC_CONSUMER_NOT_AN_ENVELOPE', `this is not an envelope of svc: ${why}`);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
