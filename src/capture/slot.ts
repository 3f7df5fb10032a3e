import type { OnCall } from './call.ts';
import type { CaptureRule } from './rule.ts';

/**
 * What a wrapper looks at on each call. Mutable on purpose: a configured rule takes over from a decorator, and capture is
 * switched off, without wrapping again.
 */
export interface CaptureSlot {
  rule: CaptureRule;
  /** `null` while capture is off: the wrapper then only calls the function. */
  onCall: OnCall | null;
  /** Captured calls so far: for the report at the end of the process and the metrics. */
  calls: number;
}
