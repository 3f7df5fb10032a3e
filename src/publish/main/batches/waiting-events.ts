import { orderOf } from '../../../ground/event-id.ts';
import { type BatchLimits, countForBatch } from '../../cut-batches.ts';
import type { QueuedEvent } from './queued-event.ts';

/** Events without an outcome that are in no batch yet, in their order. */
export class WaitingEvents {
  private events: QueuedEvent[] = [];
  private heldCount = 0;
  bytes = 0;

  get count(): number {
    return this.events.length;
  }

  get hasHeld(): boolean {
    return this.heldCount > 0;
  }

  get first(): QueuedEvent | undefined {
    return this.events[0];
  }

  get firstHeld(): QueuedEvent | undefined {
    return this.hasHeld ? this.events.find(({ isHeld }) => isHeld) : undefined;
  }

  push(event: QueuedEvent): void {
    this.insert(event, this.events.length);
  }

  /** Where it was, behind all that are earlier: most of those that come back do so in their order. */
  putBack(event: QueuedEvent): void {
    const order = orderOf(event.event.eventId);
    const before = this.events.findLastIndex((one) => orderOf(one.event.eventId) <= order);
    this.insert(event, before + 1);
  }

  /** The first ones, as many as a send takes. */
  takeBatch(limits: BatchLimits): QueuedEvent[] {
    const count = this.count && countForBatch(this.events, ({ bytes }) => bytes, limits);
    return this.taken(this.events.splice(0, count));
  }

  take(isWanted: (event: QueuedEvent) => boolean): QueuedEvent[] {
    const wanted = this.events.filter(isWanted);
    this.events = this.events.filter((event) => !isWanted(event));
    return this.taken(wanted);
  }

  /** None of them is held any more. */
  freeAll(free: (event: QueuedEvent) => void): void {
    for (const event of this.events) if (event.isHeld) free(event);
    this.heldCount = 0;
  }

  private insert(event: QueuedEvent, at: number): void {
    this.events.splice(at, 0, event);
    this.bytes += event.bytes;
    if (event.isHeld) this.heldCount++;
  }

  private taken(events: QueuedEvent[]): QueuedEvent[] {
    for (const { bytes, isHeld } of events) {
      this.bytes -= bytes;
      if (isHeld) this.heldCount--;
    }
    return events;
  }
}
