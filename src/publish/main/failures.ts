import type { SendFailure, SendResult } from '../broker.ts';

export const shutDown: SendFailure = {
  kind: 'retriable',
  cause: 'Shutdown',
  message: 'svc was told to end before the event was acknowledged',
  endedBy: 'shutdown',
};

export const stopped: SendFailure = { kind: 'fatal', cause: 'Closed', message: 'svc has stopped' };

export const tooManyAtOnce: SendFailure = {
  kind: 'retriable',
  cause: 'BufferFull',
  message:
    'one turn of the event loop brought more events than fit into an eighth of the heap, and nothing is sent before it is over: let a long loop wait now and then (await setImmediate of node:timers/promises)',
};

/** An adapter that throws breaks its port's promise; its events still get their outcome. */
export function brokenPromise(error: unknown): SendResult {
  const message = 'the broker adapter failed';
  return { ok: false, failure: { kind: 'unknown_outcome', cause: nameOf(error), message } };
}

/** The last net: whatever fails in the queue, the application goes on, and the event is counted. */
export function brokenQueue(error: unknown): SendFailure {
  return { kind: 'unknown_outcome', cause: nameOf(error), message: 'svc itself failed; please report it' };
}

/** The event was not acknowledged in its time. */
export function timedOut(deliveryTimeoutMs: number): SendFailure {
  return {
    kind: 'retriable',
    cause: 'TimeoutException',
    message: `not acknowledged within ${deliveryTimeoutMs} ms (svc.broker.delivery-timeout-ms, less what the dead letter topic and the backup need)`,
  };
}

/** Of an error, its name: a message may hold a payload. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}
