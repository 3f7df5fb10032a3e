import { parseBounded } from '../ground/bounds.ts';
import { cloudEventIn, envelopeOf, isObject, notAnEnvelope, type TextHeaders } from './decrypt-fields.ts';

/** A record as a client of Kafka gives it: a message of `kafkajs`, for one. */
export interface EventRecord {
  readonly value: Uint8Array | string | null;
  /** Of `@platformatic/kafka`: the map that it gives. */
  readonly headers?: object | undefined;
  /** Milliseconds since the epoch; for CloudEvents of others, which need not say when they were made. */
  readonly timestamp?: number | bigint | string | undefined;
}

/**
 * The envelope of a record: JSON as it is, and CloudEvents in both modes as the envelope that svc would have written in their
 * place. Nothing is decrypted. Throws an `SvcError` with code `SVC_CONSUMER_NOT_AN_ENVELOPE` that holds nothing of the value.
 */
export function readEnvelope<T = unknown>({ value, headers = {}, timestamp = Number.NaN }: EventRecord): T {
  return toEnvelope(parsedValue(value), textHeaders(headers), Number(timestamp)) as T;
}

/** The same of what a value says. What is no CloudEvent is returned as it is. */
export function toEnvelope(document: unknown, headers: TextHeaders, timestampMs = Number.NaN): unknown {
  const event = cloudEventIn(document, headers);
  return event === undefined ? document : envelopeOf(event, timestampMs);
}

function parsedValue(value: EventRecord['value']): unknown {
  const text = typeof value === 'string' ? value : Buffer.from(value ?? []).toString();
  const document = parseBounded(text);
  if (isObject(document)) return document;
  throw notAnEnvelope('its value is not the JSON of an object');
}

function textHeaders(headers: object): TextHeaders {
  const entries: Iterable<[unknown, unknown]> = headers instanceof Map ? headers : Object.entries(headers);
  const texts: Record<string, string> = Object.create(null);
  for (const [name, value] of entries) {
    // Kafka lets one name stand several times; kafkajs gives a list then.
    const first = Array.isArray(value) ? value[0] : value;
    if (typeof first === 'string' || first instanceof Uint8Array) texts[textOf(name)] = textOf(first);
  }
  return texts;
}

const textOf = (value: unknown): string =>
  value instanceof Uint8Array ? Buffer.from(value).toString() : String(value);
