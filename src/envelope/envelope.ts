// envelope/: what surrounds the payload of an event, and the ids that no two events share.

import { attributePrefix, type Severity } from '../ground/event-fields.ts';
import { lazyPattern } from '../ground/names.ts';

/** The service that publishes. What is not known is `null`. */
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

const eachNotInTexts = lazyPattern(String.raw`[\p{Cc}\p{Cs}\p{NChar}]`, 'gu');
const usual = /^[\x20-\x7e]*$/;

/** With `U+FFFD` in the place of each character that no attribute may hold. */
export function attributeText(text: string): string {
  return usual.test(text) ? text : text.replace(eachNotInTexts(), '\ufffd');
}

/** JSON in which those characters are escaped, so that nothing is lost. */
export function attributeJson(value: unknown): string {
  const json = JSON.stringify(value);
  return usual.test(json) ? json : json.replace(eachNotInTexts(), escaped);
}

function escaped(character: string): string {
  let text = '';
  for (let index = 0; index < character.length; index++)
    text += `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`;
  return text;
}

interface EnvelopeBuilderOptions<Context> {
  /** Given what the caller of the builder passes as `active`. */
  readonly readOrigin: (active?: Context) => Origin;
}

/** `occurredAtMs`: when the call finished, since the Unix epoch. */
export type BuildEnvelope<Context = never> = (
  eventId: string,
  template: EnvelopeTemplate,
  payload: unknown,
  trace: Trace,
  occurredAtMs: number,
  active?: Context,
) => Envelope;

/** Puts an event together. Runs on the caller's path: one object, nothing serialized. */
export function createEnvelopeBuilder<Context = never>(
  options: EnvelopeBuilderOptions<Context>,
): BuildEnvelope<Context> {
  const { readOrigin } = options;
  return (eventId, template, payload, trace, occurredAtMs, active) => ({
    eventId,
    template,
    occurredAt: isoTime(occurredAtMs),
    trace,
    origin: readOrigin(active),
    payload,
  });
}

interface TemplateOptions {
  readonly eventType: string;
  readonly severity: Severity;
  readonly source: Source;
}

/** Serializes once what every event of a target has in common. Made at start, or when a new event type shows up. */
export function createTemplate({ eventType, severity, source }: TemplateOptions): EnvelopeTemplate {
  const { serviceName, serviceVersion, hostname } = source;
  const actor = ',"actor":{"userId":';
  const sourceText = JSON.stringify({ serviceName, serviceVersion, hostname });
  return {
    eventType,
    severity,
    source,
    // One piece each: V8 would keep a sum as a tree of its parts, and walk through it at each event.
    afterEventId: [',"eventType":', JSON.stringify(eventType), ',"occurredAt":"'].join(''),
    afterPublishedAt: ['","severity":"', severity, '","metadata":{"source":', sourceText, actor].join(''),
  };
}

/** `publish()` takes any event type; more than these are serialized anew each time, so that memory stays bounded. */
const maxKept = 1000;

/** The templates of one service, each made once. */
export function createTemplates(source: Source): (eventType: string, severity: Severity) => EnvelopeTemplate {
  // By names that are there already: a key put together for each event would be hashed for each event.
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

let cachedSecond = Number.NaN;
let secondText = '';

/**
 * `2026-03-04T10:00:00.120Z`, as `toISOString` writes it, at a fraction of its price: a second's text is made once.
 * Throws a `RangeError` where `toISOString` does.
 */
export function isoTime(atMs: number): string {
  const wholeMs = Math.floor(atMs);
  const second = Math.floor(wholeMs / 1000);
  if (second !== cachedSecond) {
    secondText = new Date(second * 1000).toISOString().slice(0, -4);
    cachedSecond = second;
  }
  const ms = wholeMs - second * 1000;
  return `${secondText}${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}Z`;
}
