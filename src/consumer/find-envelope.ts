import { SvcError } from '../ground/errors.ts';

/** An envelope, and how to put another one into its place. */
export interface FoundEnvelope {
  readonly envelope: object;
  readonly withEnvelope: (envelope: object) => object;
}

/**
 * The envelope in a parsed document: the document itself, or the `value` of a record as the file broker writes it, parsed or
 * as text. Throws `SVC_CONSUMER_NOT_AN_ENVELOPE`.
 */
export function findEnvelope(document: unknown): FoundEnvelope {
  if (isEnvelope(document)) return { envelope: document, withEnvelope: (envelope) => envelope };
  const value = isObject(document) ? parsed((document as { value?: unknown }).value) : undefined;
  if (isEnvelope(value))
    return { envelope: value, withEnvelope: (envelope) => ({ ...(document as object), value: envelope }) };
  throw new SvcError(
    'SVC_CONSUMER_NOT_AN_ENVELOPE',
    'this is neither an envelope (eventId, eventType, payload) nor a record with one as its value',
  );
}

function isEnvelope(value: unknown): value is object {
  return isObject(value) && 'eventId' in value && 'eventType' in value && 'payload' in value;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function parsed(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}
