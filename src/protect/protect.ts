import type { Envelope } from '../envelope/envelope.ts';
import { normalize } from './normalize.ts';

declare const protectedMark: unique symbol;

/** An envelope that may leave the process. Only `protect` makes one, and serializers take nothing else. */
export interface ProtectedEnvelope extends Omit<Envelope, 'payload'> {
  readonly payload: Readonly<Record<string, unknown>>;
  readonly [protectedMark]: true;
}

/**
 * The only way from an envelope to something that can be serialized. It fails closed: what cannot be represented safely
 * throws an `SvcError` that names no value, and the event is refused. A payload that is no object becomes `{ "value": … }`.
 */
export function protect(envelope: Envelope): ProtectedEnvelope {
  const payload = normalize(envelope.payload);
  const isObject = typeof payload === 'object' && payload !== null && !Array.isArray(payload);
  return {
    eventId: envelope.eventId,
    template: envelope.template,
    occurredAt: envelope.occurredAt,
    trace: envelope.trace,
    origin: envelope.origin,
    payload: isObject ? payload : { value: payload ?? null },
  } as ProtectedEnvelope;
}
