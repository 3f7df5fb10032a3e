import type { Call, CapturePlan, OnCall } from '../../src/capture/call.ts';
import { type CaptureSlot, createSlot } from '../../src/capture/slot.ts';

export interface RecordingSlot extends CaptureSlot {
  readonly seen: Call[];
}

/** A slot that keeps the calls it is told of. `answer` is what `onCall` returns, or throws. */
export function recordingSlot(plan: Partial<CapturePlan> = {}, answer?: OnCall): RecordingSlot {
  const seen: Call[] = [];
  const slot = createSlot(
    {
      id: 'src/orders.ts#create',
      origin: 'configuration',
      eventType: 'ORDER_CREATED',
      severity: 'INFO',
      phase: 'AFTER_RETURNING',
      failOnError: false,
      afterCommit: false,
      payload: (call) => call.result,
      ...plan,
    },
    Object.assign(
      (call: Call) => {
        seen.push(call);
        return answer?.(call);
      },
      { neverWaits: answer?.neverWaits === true },
    ),
  );
  return Object.assign(slot, { seen });
}

/** A promise that a test settles when it wants to. */
export function deferred<T = void>(): {
  promise: Promise<T>;
  resolve: (value: T) => void;
  reject: (error: unknown) => void;
} {
  let resolve: (value: T) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}

/** Lets everything run that is ready to. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
