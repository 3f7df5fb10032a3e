import { cloudEventsType, extensions } from '../envelope/cloud-attributes.ts';
import { attributePrefix, severities } from '../ground/event-fields.ts';
import { isObject, notAnEnvelope } from './cipher-fields.ts';

/** Headers of a record, as texts. */
export type TextHeaders = Readonly<Record<string, string | undefined>>;

/** A CloudEvent by its attributes, `data` beside them. */
export type CloudEvent = Readonly<Record<string, unknown>>;

/** True for one as JSON has it, and for one of the official SDK. */
export function isCloudEvent(
  value: unknown,
): value is CloudEvent & { readonly id: string; readonly type: string } {
  if (!isObject(value)) return false;
  const { specversion, id, type, source } = value as CloudEvent;
  return [specversion, id, type, source].every((text) => typeof text === 'string' && text !== '');
}

/**
 * The CloudEvent in a record, `undefined` where it is none. Structured mode is told by the content type, binary mode by the
 * attributes that each event has. Throws `SVC_CONSUMER_NOT_AN_ENVELOPE` for one that no envelope can be made of.
 */
export function cloudEventIn(value: unknown, headers: TextHeaders): CloudEvent | undefined {
  if (isStructured(headers)) {
    if (!isCloudEvent(value))
      throw notAnEnvelope('its CloudEvent lacks id, type, source or specversion, or is a batch');
    if ('data_base64' in value) throw notAnEnvelope('the data of its CloudEvent is no JSON');
    return value;
  }
  // Of a dead letter: those of the event that it tells of.
  if (headers.originalTopic !== undefined) return undefined;
  const attributes: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(headers))
    if (name.startsWith(attributePrefix)) attributes[name.slice(attributePrefix.length)] = text;
  return isCloudEvent(attributes) ? { ...attributes, data: value } : undefined;
}

function isStructured(headers: TextHeaders): boolean {
  return headers['content-type']?.toLowerCase().startsWith(cloudEventsType) === true;
}

/** The envelope that svc would have written in its place; of another producer, as much of it as the attributes say. */
export function envelopeOf(event: CloudEvent, timestampMs: number): object {
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

/** Other producers may write another offset. What is in UTC keeps its digits. */
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
    // Those of another producer.
  }
  return {};
}
