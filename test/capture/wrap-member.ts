import type { CaptureSlot } from '../../src/capture/slot.ts';
import { type WrapResult, wrapFactory } from '../../src/capture/wrap/wrap-property.ts';

/** Captures a member of what a factory returns, and says what is reported. `undefined`: it was captured before. */
export function wrapMember(owner: unknown, key: string, slot: CaptureSlot): WrapResult | undefined {
  const results: WrapResult[] = [];
  const factory = wrapFactory(
    () => ({ owner }),
    { [`owner.${key}`]: slot },
    (_, result) => results.push(result),
  );
  factory();
  return results[0];
}
