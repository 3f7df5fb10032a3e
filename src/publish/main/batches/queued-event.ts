// batches/: what is in the queue of a partition: events, and the batches of them.

import type { SerializedEvent } from '../../../serialize/serializer.ts';
import type { BrokerRecord, SendFailure } from '../../broker.ts';
import type { FailedEvent } from '../../tier.ts';

/** The send that an event was part of failed, and is tried again. What comes of that is in `next`. */
export interface RetryNotice {
  readonly failure: SendFailure;
  /** Which retry this will be, counted from 1. */
  readonly retry: number;
  readonly waitMs: number;
  /** Events in the same send. */
  readonly batchEvents: number;
  readonly event: QueuedEvent;
  readonly next: Promise<Signal>;
}

/** An event leaves the queue for the next tier. */
export interface Leave {
  readonly failed: FailedEvent;
  readonly event: QueuedEvent;
}

/** What its caller's side hears of an event: published (`undefined`), not published, or a retry before either. */
export type Signal = undefined | Leave | { readonly notice: RetryNotice };

export interface Admitted {
  /** On the monotonic clock. */
  readonly atMs: number;
  /** `Infinity`: it is held. */
  readonly deliveryTimeoutMs: number;
  readonly isProbe: boolean;
}

/**
 * One event in memory. Its caller's side awaits `signal`, so everything that is done for the event there runs in the
 * AsyncLocalStorage context of its call, without a context being kept per event.
 */
export class QueuedEvent {
  readonly event: SerializedEvent;
  readonly topic: string;
  readonly bytes: number;
  /** It tests the cluster for the breaker. */
  readonly isProbe: boolean;
  /** Both on the monotonic clock. */
  acceptedAtMs: number;
  deadlineAtMs: number;
  signal: Promise<Signal>;
  record: BrokerRecord | undefined;
  attempts = 0;
  private resolve!: (signal: Signal) => void;
  private settled = false;

  constructor(event: SerializedEvent, topic: string, bytes: number, admitted: Admitted) {
    this.event = event;
    this.topic = topic;
    this.bytes = bytes;
    this.isProbe = admitted.isProbe;
    this.acceptedAtMs = admitted.atMs;
    this.deadlineAtMs = admitted.atMs + admitted.deliveryTimeoutMs;
    this.signal = this.nextSignal();
  }

  get isSettled(): boolean {
    return this.settled;
  }

  /** Earlier ones of its partition are in the backup, or on their way to it: its time does not run yet. */
  get isHeld(): boolean {
    return this.deadlineAtMs === Number.POSITIVE_INFINITY;
  }

  /** It may be sent: its time begins. */
  free(nowMs: number, deliveryTimeoutMs: number): void {
    this.acceptedAtMs = nowMs;
    this.deadlineAtMs = nowMs + deliveryTimeoutMs;
  }

  /** The backup had no room for it: it waits again. */
  comeBack(): void {
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
    this.settled = false;
    // It is made anew: a value that was asked for has a buffer of its own.
    this.record = undefined;
    this.signal = this.nextSignal();
  }

  /** The first end counts. */
  published(): void {
    this.settle(undefined);
  }

  failed(failed: FailedEvent): void {
    this.settle({ failed, event: this });
  }

  /** Nobody hears of the event any more. */
  silenced(): void {
    this.settled = true;
  }

  /** With its record, which is there by then. */
  toFailed(failure: SendFailure): FailedEvent {
    const { event, topic, attempts, deadlineAtMs } = this;
    return { event, topic, attempts, failure, record: this.record as BrokerRecord, deadlineAtMs };
  }

  retrying(notice: Omit<RetryNotice, 'event' | 'next'>): void {
    if (this.settled) return;
    const { resolve } = this;
    resolve({ notice: { ...notice, event: this, next: this.nextSignal() } });
  }

  private settle(signal: Signal): void {
    if (this.settled) return;
    this.settled = true;
    this.resolve(signal);
  }

  private nextSignal(): Promise<Signal> {
    return new Promise((resolve) => {
      this.resolve = resolve;
    });
  }
}
