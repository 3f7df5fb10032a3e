// envelope/: what surrounds the payload of an event, and the ids that no two events share.

import type { Severity } from '../ground/event-fields.ts';
import type { Envelope, EnvelopeTemplate, Origin, Source, Trace } from './envelope.ts';

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
