import { attributePrefix, type Severity } from '../ground/event-fields.ts';

/** The service that publishes. What is not known is `null`. */
export interface Source {
  readonly serviceName: string | null;
  readonly serviceVersion: string | null;
  readonly hostname: string | null;
}

export interface Trace {
  readonly traceId: string | null;
  readonly spanId: string | null;
  readonly parentSpanId: string | null;
}

/** Who and where from, at the time of the call. What is not known is `null`, never a made-up value. */
export interface Origin {
  readonly userId: string | null;
  readonly sessionId: string | null;
  readonly correlationId: string | null;
  readonly clientIp: string | null;
  /** `null` where there are none: written as `{}`. */
  readonly tags: Readonly<Record<string, string>> | null;
}

/** One event before protection. Never leaves the process: only a `ProtectedEnvelope` can be serialized. */
export interface Envelope {
  readonly eventId: string;
  readonly template: EnvelopeTemplate;
  /** ISO 8601, UTC, milliseconds: when the call finished. */
  readonly occurredAt: string;
  readonly trace: Trace;
  readonly origin: Origin;
  readonly payload: unknown;
}

/** What never changes between the events of one target, serialized once at start. */
export interface EnvelopeTemplate {
  readonly eventType: string;
  readonly severity: Severity;
  readonly source: Source;
  /** `,"eventType":"…","occurredAt":"` */
  readonly afterEventId: string;
  /** `","severity":"INFO","metadata":{"source":{…},"actor":{"userId":` */
  readonly afterPublishedAt: string;
}

/** Of the header `content-type` in structured mode, whatever follows and however it is written. */
export const cloudEventsType = 'application/cloudevents';
export const cloudEventsJson = `${cloudEventsType}+json`;

/**
 * The attributes of a CloudEvent that hold what an envelope has beside those of the core. Those of documented extensions are named
 * as there: severity, recorded time, correlation and distributed tracing.
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
  /** As JSON: their names are not those that attributes can have. */
  tags: 'tags',
  parentSpanId: 'parentspanid',
  traceparent: 'traceparent',
  tracestate: 'tracestate',
} as const;

const core = ['specversion', 'id', 'source', 'type', 'time', 'subject'] as const;

/** Each header that a record in binary mode can have for its attributes. */
export const attributeHeaders: readonly string[] = [...core, ...Object.values(extensions)].map(
  (name) => attributePrefix + name,
);

const eachNotInTexts = /[\p{Cc}\p{Cs}\p{NChar}]/gu;
const usual = /^[\x20-\x7e]*$/;

/** With `U+FFFD` in the place of each character that no attribute may hold. */
export function attributeText(text: string): string {
  return usual.test(text) ? text : text.replace(eachNotInTexts, '\ufffd');
}

/** JSON in which those characters are escaped, so that nothing is lost. */
export function attributeJson(value: unknown): string {
  const json = JSON.stringify(value);
  return usual.test(json) ? json : json.replace(eachNotInTexts, escaped);
}

function escaped(character: string): string {
  let text = '';
  for (let index = 0; index < character.length; index++)
    text += `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`;
  return text;
}
