import { orderOf } from '../../../ground/event-id.ts';
import { type BatchLimits, countForBatch } from '../../cut-batches.ts';
import type { QueuedEvent } from './queued-event.ts';

/** Events without an outcome that are in no batch yet, in their order. */
export interface WaitingEvents {
  readonly count: number;
  readonly bytes: number;
  readonly heldCount: number;
  first(): QueuedEvent | undefined;
  firstHeld(): QueuedEvent | undefined;
  /** None of them is held any more. @param free called with each that was */
  free(free: (event: QueuedEvent) => void): void;
  push(event: QueuedEvent): void;
  /** Where it was: before all that are later. */
  putBack(event: QueuedEvent): void;
  /** The first ones, as many as a send takes. */
  takeBatch(limits: BatchLimits): QueuedEvent[];
  take(isWanted: (event: QueuedEvent) => boolean): QueuedEvent[];
}

export function createWaitingEvents(): WaitingEvents {
  let events: QueuedEvent[] = [];
  let bytes = 0;
  let heldCount = 0;

  function added(event: QueuedEvent): void {
    bytes += event.bytes;
    if (event.isHeld) heldCount++;
  }

  function taken(some: QueuedEvent[]): QueuedEvent[] {
    for (const event of some) {
      bytes -= event.bytes;
      if (event.isHeld) heldCount--;
    }
    return some;
  }

  return {
    get count() {
      return events.length;
    },
    get bytes() {
      return bytes;
    },
    get heldCount() {
      return heldCount;
    },
    first: () => events[0],
    firstHeld: () => (heldCount === 0 ? undefined : events.find(({ isHeld }) => isHeld)),
    free(free) {
      for (const event of events) if (event.isHeld) free(event);
      heldCount = 0;
    },
    push(event) {
      events.push(event);
      added(event);
    },
    putBack(event) {
      const order = orderOf(event.event.eventId);
      let at = events.length;
      while (at > 0 && orderOf((events[at - 1] as QueuedEvent).event.eventId) > order) at--;
      events.splice(at, 0, event);
      added(event);
    },
    takeBatch: (limits) =>
      taken(
        events.splice(
          0,
          countForBatch(events, (event) => event.bytes, limits),
        ),
      ),
    take(isWanted) {
      const wanted: QueuedEvent[] = [];
      const others: QueuedEvent[] = [];
      for (const event of events) (isWanted(event) ? wanted : others).push(event);
      events = others;
      return taken(wanted);
    },
  };
}

/** Of one that is held, when it is looked at again. */
export function nextDeadline(event: QueuedEvent | undefined, laterMs: number): number | undefined {
  return event?.isHeld ? laterMs : event?.deadlineAtMs;
}
