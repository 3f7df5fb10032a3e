// envelope/: what surrounds the payload of an event, and the ids that no two events share.

import type { Envelope, EnvelopeTemplate, Origin, Trace } from './envelope.ts';
import { isoTime } from './iso-time.ts';

export interface EnvelopeBuilderOptions<Context> {
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
