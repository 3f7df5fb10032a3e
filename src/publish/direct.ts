import { type Clock, within } from '../clock.ts';
import type { SerializedEvent } from '../serialize/serializer.ts';
import type { Broker, SendFailure } from './broker.ts';
import type { Outcome, Publisher } from './publisher.ts';

export interface DirectPublisherOptions {
  readonly broker: Broker;
  /** Topic of events that name none. */
  readonly topic: string;
  readonly clock: Clock;
  /** Sends under way at once; further events wait in memory. */
  readonly maxInFlight: number;
  /** Events in memory, waiting or under way; one more is lost and reported. */
  readonly maxEvents: number;
  /** Runs a send as svc's own work: not captured, and without spans of the client's instrumentation. */
  readonly isolate: <T>(work: () => Promise<T>) => Promise<T>;
  readonly onSuccess: () => void;
  /** Called for each event that was not published. */
  readonly onFailure: (event: SerializedEvent, topic: string, failure: SendFailure) => void;
}

interface Waiting {
  readonly event: SerializedEvent;
  readonly settle: (outcome: Outcome) => void;
}

/** Main topic: one record a send, acknowledged by the broker, with a bounded number under way. */
export function createDirectPublisher(options: DirectPublisherOptions): Publisher {
  const { broker, clock, maxInFlight, maxEvents, isolate, onSuccess, onFailure } = options;
  const waiting: Waiting[] = [];
  let inFlight = 0;
  let closed = false;
  let onIdle: (() => void) | undefined;

  function fail(event: SerializedEvent, failure: SendFailure): Outcome {
    onFailure(event, event.topic ?? options.topic, failure);
    return 'lost';
  }

  async function send(event: SerializedEvent): Promise<Outcome> {
    const now = clock.now();
    const value = Buffer.from(event.head + new Date(now).toISOString() + event.tail);
    const record = { key: event.key, value, headers: event.headers, timestamp: now };
    const result = await isolate(() => broker.send(event.topic ?? options.topic, undefined, [record]));
    if (!result.ok) return fail(event, result.failure);
    onSuccess();
    return 'published';
  }

  function start({ event, settle }: Waiting): void {
    inFlight++;
    send(event)
      .catch((error: unknown) => fail(event, brokenPromise(error)))
      .then((outcome) => {
        inFlight--;
        settle(outcome);
        const next = waiting.shift();
        if (next !== undefined) start(next);
        else if (inFlight === 0) onIdle?.();
      });
  }

  return {
    publish(event) {
      if (closed)
        return Promise.resolve(fail(event, { kind: 'fatal', cause: 'Closed', message: 'svc has stopped' }));
      if (inFlight + waiting.length >= maxEvents) {
        const message = `${maxEvents} events are waiting in memory already (svc.broker.buffer.max-events)`;
        return Promise.resolve(fail(event, { kind: 'fatal', cause: 'BufferFull', message }));
      }
      return new Promise((settle) => {
        if (inFlight < maxInFlight) start({ event, settle });
        else waiting.push({ event, settle });
      });
    },

    async close(deadlineMs) {
      const end = clock.monotonic() + deadlineMs;
      closed = true;
      if (inFlight > 0) await within(deadlineMs, new Promise<void>((resolve) => (onIdle = resolve)));
      for (const { event, settle } of waiting.splice(0)) {
        settle(
          fail(event, {
            kind: 'unknown_outcome',
            cause: 'Shutdown',
            message: 'the process ended before it was sent',
          }),
        );
      }
      await broker.close(Math.max(0, end - clock.monotonic()));
    },
  };
}

/** An adapter that throws breaks its port's promise; the event still gets its outcome. */
function brokenPromise(error: unknown): SendFailure {
  const cause = error instanceof Error ? error.name : typeof error;
  return { kind: 'unknown_outcome', cause, message: 'the broker adapter failed' };
}
