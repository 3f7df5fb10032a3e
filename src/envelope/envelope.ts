// envelope/: the fields around the payload of an event, and unique ids.

import { attributePrefix, type Severity } from '../ground/event-fields.ts';
import { lazyPattern } from '../ground/names.ts';

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
export interface EnvelopeTemplate {
  readonly eventType: string;
  readonly severity: Severity;
  readonly source: Source;
  /** `,"eventType":"…","occurredAt":"` */
  readonly afterEventId: string;
  /** `","severity":"INFO","metadata":{"source":{…},"actor":{"userId":` */
  readonly afterPublishedAt: string;
}

/** Start of the `content-type` in structured mode; parameters and case vary. */
export const cloudEventsType = 'application/cloudevents';
export const cloudEventsJson = `${cloudEventsType}+json`;

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

const core = ['specversion', 'id', 'source', 'type', 'time', 'subject'] as const;

/** All headers that a record in binary mode may have for its attributes. */
export const attributeHeaders: readonly string[] = [...core, ...Object.values(extensions)].map(
  (name) => attributePrefix + name,
);

const eachNotInTexts = lazyPattern(String.raw`[\p{Cc}\p{Cs}\p{NChar}]`, 'gu');
const usual = /^[\x20-\x7e]*$/;

/** Replaces characters that attributes may not contain by `U+FFFD`. */
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
  /** Receives `active` of the builder's caller. */
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

/** Builds the envelope of an event. Runs on the caller's path: one object, nothing serialized. */
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

/** Serializes the constant parts of a target's events. Called at start, and for each new event type. */
export function createTemplate({ eventType, severity, source }: TemplateOptions): EnvelopeTemplate {
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
export function createTemplates(source: Source): (eventType: string, severity: Severity) => EnvelopeTemplate {
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

let cachedSecond = Number.NaN;
let secondText = '';

/**
 * Like `toISOString`: `2026-03-04T10:00:00.120Z`. Faster, because the text of a second is cached. Throws a `RangeError` like
 * `toISOString`.
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
