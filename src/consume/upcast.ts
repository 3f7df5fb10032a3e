import { SvcError } from '../ground/errors.ts';
import type { ConsumedEvent, ConsumedRecord } from './consumed-event.ts';
import { nameOf } from './database-fault.ts';

/**
 * Makes a payload of one version into one of the next. It is given each event of its type, and tells by the payload, or by a
 * header that its producer sets, whether this one is older; what is not it returns as it is. At once, no promise.
 */
export type Upcast = (
  // biome-ignore lint/suspicious/noExplicitAny: a payload of another version
  payload: any,
  of: { readonly event: ConsumedEvent; readonly headers: ConsumedRecord['headers'] },
) => unknown;

export type Upcasts = Readonly<Record<string, readonly Upcast[]>>;

/** The event with its payload in the version that handlers know: each function gets what the one before it has returned. */
export function upcastEvent(
  event: ConsumedEvent,
  headers: ConsumedRecord['headers'],
  upcasts: Upcasts | undefined,
): ConsumedEvent {
  const { eventType } = event;
  if (upcasts === undefined || !Object.hasOwn(upcasts, eventType)) return event;
  let { payload } = event;
  for (const upcast of upcasts[eventType] ?? []) {
    payload = upcast(payload, { event, headers });
    if (payload === undefined || payload instanceof Promise)
      throw new TypeError('an upcast returns the payload, and no promise');
  }
  return { ...event, payload };
}

export function upcastFailed({ eventType }: ConsumedEvent, error: unknown): SvcError {
  return new SvcError('SVC_CONSUME_UPCAST', `an upcast of ${eventType} failed with ${nameOf(error)}`);
}
