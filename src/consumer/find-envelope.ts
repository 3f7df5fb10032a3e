import { SvcError } from '../ground/errors.ts';
import { isObject } from './cipher-fields.ts';
import { type CloudEvent, cloudEventIn, isCloudEvent, type TextHeaders } from './cloud-event.ts';

/** An envelope, and how to put another one into its place. */
export interface FoundEnvelope {
  readonly envelope: object;
  readonly withEnvelope: (envelope: object) => object;
}

/**
 * The envelope in a parsed document: the document itself, or the `value` of a record as the file broker writes it, parsed or
 * as text. A CloudEvent is one as well, of binary mode with the `headers` of its record.
 * Throws `SVC_CONSUMER_NOT_AN_ENVELOPE`.
 */
export function findEnvelope(document: unknown): FoundEnvelope {
  if (isEnvelope(document)) return { envelope: document, withEnvelope: (envelope) => envelope };
  const record = isObject(document) ? (document as FoundRecord) : {};
  const value = parsed(record.value);
  if (isEnvelope(value))
    return { envelope: value, withEnvelope: (envelope) => ({ ...record, value: envelope }) };
  const event = isObject(record.headers) ? cloudEventIn(value, record.headers) : undefined;
  if (event !== undefined)
    return {
      envelope: event,
      withEnvelope: (envelope) => ({ ...record, value: (envelope as CloudEvent).data }),
    };
  throw new SvcError(
    'SVC_CONSUMER_NOT_AN_ENVELOPE',
    'this is neither an envelope (eventId, eventType, payload) nor a record with one as its value',
  );
}

interface FoundRecord {
  readonly value?: unknown;
  readonly headers?: TextHeaders;
}

function isEnvelope(value: unknown): value is object {
  if (isCloudEvent(value)) return 'data' in value;
  return isObject(value) && 'eventId' in value && 'eventType' in value && 'payload' in value;
}

function parsed(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}
