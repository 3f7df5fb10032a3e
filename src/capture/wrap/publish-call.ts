import { runOwnWork } from '../../ground/lifecycle.ts';
import type { Call, OnCall } from '../call.ts';
import type { CaptureSlot } from '../slot.ts';

/**
 * Hands one call over. Returns the promise the caller has to wait for, where there is one. Throws only what `onCall` threw
 * for a plan with `failOnError`.
 */
export function publishCall(slot: CaptureSlot, call: Call): Promise<void> | undefined {
  const onCall = slot.onCall;
  // Of a function in whose transaction it was told already, before the COMMIT.
  if (onCall === null || call.scope?.takeEvent() === false) return undefined;
  slot.calls++;
  try {
    return runOwnWork(() =>
      call.plan.when === undefined ? onCall(call) : callWhenWanted(slot, onCall, call),
    );
  } catch (error) {
    if (call.plan.failOnError) throw error;
    return undefined;
  }
}

function callWhenWanted(slot: CaptureSlot, onCall: OnCall, call: Call): Promise<void> | undefined {
  let isWanted: boolean | undefined;
  try {
    isWanted = call.plan.when?.(call);
  } catch (refusal) {
    return onCall(Object.assign(call, { refusal }));
  }
  if (isWanted) return onCall(call);
  slot.skipped++;
  return undefined;
}

/** For a caller that cannot wait: the event's promise is left to itself, and so is its rejection. */
export function publishInBackground(slot: CaptureSlot, call: Call): void {
  publishCall(slot, call)?.then(undefined, ignore);
}

/** Tells of a call that failed. The application's own error is the one its caller gets, whatever becomes of the event. */
export function publishFailure(slot: CaptureSlot, call: Call): Promise<void> | undefined {
  try {
    return publishCall(slot, call)?.then(undefined, ignore);
  } catch {
    return undefined;
  }
}

/** Resolves to `value` once the event is through; rejects with the event's error only for a plan with `failOnError`. */
export function afterEvent<T>(event: Promise<void>, value: T, failOnError: boolean): Promise<T> {
  return event.then(() => value, failOnError ? undefined : () => value);
}

export function ignore(): void {}
