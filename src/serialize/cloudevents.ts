import { extensions, type Source } from '../envelope/envelope.ts';
import { SvcError } from '../ground/errors.ts';
import {
  attributePrefix,
  isAttributeHeader,
  isAttributeText,
  notInAttributes,
  type Severity,
} from '../ground/event-fields.ts';
import type { ProtectedEnvelope } from '../protect/protect.ts';
import {
  type EventForm,
  EventValue,
  jsonForm,
  payloadJson,
  type RecordParts,
  type Serializer,
} from './serializer.ts';

// Envelopes as CloudEvents 1.0, in both modes of the Kafka binding.

interface CloudEventsOptions {
  /** `binary`: attributes in headers, payload in the value; `structured`: everything in the value. */
  readonly mode: 'binary' | 'structured';
  /** A URI-reference. Default: the name of the service. */
  readonly source?: string | undefined;
}

/** OpenTelemetry's severity numbers. */
const severityNumbers: Readonly<Record<Severity, number>> = { INFO: 9, WARN: 13, ERROR: 17, CRITICAL: 21 };

const structuredForm: EventForm = {
  ...jsonForm,
  headers: { 'content-type': 'application/cloudevents+json; charset=UTF-8' },
};

/** `data` is the payload. Other known fields of the envelope are attributes. */
export function createCloudEventsSerializer(options: CloudEventsOptions, service?: Source): Serializer {
  const { mode, source = sourceOf(service) } = options;
  return mode === 'binary' ? binary(source) : structured(source);
}

/** The service name as a path: `/orders`, `/@acme/orders`. */
function sourceOf(service: Source | undefined): string {
  const parts = (service?.serviceName ?? 'unknown_service').split('/').filter((part) => part !== '');
  const path = parts.map((part) => encodeURIComponent(part.toWellFormed()).replaceAll('%40', '@'));
  return `/${path.join('/')}`;
}

type Attribute = readonly [name: string, value: string];
type Template = ProtectedEnvelope['template'];

function binary(source: string): Serializer {
  const constants = perTemplate((template) => {
    const headers: Record<string, string> = { ...jsonForm.headers };
    for (const [name, value] of ofTemplate(template, source)) headers[attributePrefix + name] = value;
    headers[attributePrefix + extensions.severityNumber] = String(severityNumbers[template.severity]);
    return headers;
  });
  const publishedAtHeader = attributePrefix + extensions.publishedAt;
  return {
    serialize(envelope, record) {
      const headers: Record<string, string> = { ...constants(envelope.template) };
      for (const [name, value] of ofEvent(envelope, record)) headers[attributePrefix + name] = value;
      return new EventValue({ ...jsonForm, headers, publishedAtHeader }, payloadJson(envelope), []);
    },
  };
}

function structured(source: string): Serializer {
  const constants = perTemplate((template) => {
    const attributes = jsonOf(ofTemplate(template, source));
    const number = `"${extensions.severityNumber}":${severityNumbers[template.severity]}`;
    return `{${attributes},${number},"datacontenttype":"application/json"`;
  });
  return {
    serialize: (envelope, record) =>
      new EventValue(
        structuredForm,
        `${constants(envelope.template)},${jsonOf(ofEvent(envelope, record))},"${extensions.publishedAt}":"`,
        ['","data":', payloadJson(envelope), '}'],
      ),
  };
}

function jsonOf(attributes: readonly Attribute[]): string {
  return attributes.map(([name, value]) => `"${name}":${JSON.stringify(value)}`).join();
}

/** The attributes of a template. Throws for a type that CloudEvents does not allow. */
function ofTemplate(
  { eventType, severity, source: service }: Template,
  source: string,
): readonly Attribute[] {
  if (!isAttributeText(eventType))
    throw notPossible('its event type holds a control or other character that attributes do not allow');
  return [
    ['specversion', '1.0'],
    ['source', source],
    ['type', eventType],
    [extensions.severity, severity],
    ...known(extensions.serviceName, service.serviceName),
    ...known(extensions.serviceVersion, service.serviceVersion),
    ...known(extensions.hostname, service.hostname),
  ];
}

function ofEvent(
  { eventId, occurredAt, origin, trace: { parentSpanId } }: ProtectedEnvelope,
  { key, headers, trace: { traceparent, tracestate } }: RecordParts,
): readonly Attribute[] {
  if (headers !== undefined && Object.keys(headers).some(isAttributeHeader))
    throw notPossible(`it has a header of the application whose name begins with ${attributePrefix}`);
  return [
    ['id', eventId],
    ['time', occurredAt],
    ...known('subject', key),
    [extensions.traceparent, traceparent],
    ...known(extensions.tracestate, tracestate),
    ...known(extensions.parentSpanId, parentSpanId),
    ...known(extensions.correlationId, origin.correlationId),
    ...known(extensions.userId, origin.userId),
    ...known(extensions.sessionId, origin.sessionId),
    ...known(extensions.clientIp, origin.clientIp),
    ...(origin.tags === null ? [] : [[extensions.tags, attributeJson(origin.tags)] as const]),
  ];
}

/** Attributes must not be empty. */
function known(name: string, value: string | null | undefined): readonly Attribute[] {
  return value === null || value === undefined || value === '' ? [] : [[name, attributeText(value)]];
}

/** Replaces characters that attributes may not contain by `U+FFFD`. */
function attributeText(text: string): string {
  return isAttributeText(text) ? text : text.replace(notInAttributes(), '\ufffd');
}

/** JSON in which those characters are escaped, so that nothing is lost. */
function attributeJson(value: unknown): string {
  const json = JSON.stringify(value);
  return isAttributeText(json) ? json : json.replace(notInAttributes(), escaped);
}

function escaped(character: string): string {
  let text = '';
  for (let index = 0; index < character.length; index++)
    text += `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`;
  return text;
}

function perTemplate<T>(make: (template: Template) => T): (template: Template) => T {
  const made = new WeakMap<Template, T>();
  return (template) => {
    let found = made.get(template);
    if (found === undefined) {
      found = make(template);
      made.set(template, found);
    }
    return found;
  };
}

function notPossible(why: string): SvcError {
  return new SvcError('SVC_SERIALIZE_CLOUDEVENT', `the event cannot be a CloudEvent: ${why}`);
}
