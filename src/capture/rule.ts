import type { Severity } from '../envelope/envelope.ts';
import type { Call, OnCall } from './call.ts';

/** When a captured function makes its event: before it runs, after it succeeded, or after it ended either way. */
export type Phase = 'BEFORE' | 'AFTER_RETURNING' | 'AFTER';

/** Where a rule was written. A configured rule wins over a decorator on the same function. */
export type RuleOrigin = 'configuration' | 'decorator' | 'publishEvent';

/** One publish target, compiled: everything that can be known before the first call. */
export interface CaptureRule {
  /** `src/orders.ts#createOrder`, as reports and logs name it. */
  readonly id: string;
  readonly origin: RuleOrigin;
  readonly eventType: string;
  readonly severity: Severity;
  /** Overrides the default topic. */
  readonly topic?: string | undefined;
  readonly phase: Phase;
  /** The application's call fails with the event's error instead of going on without the event. Default: false. */
  readonly failOnError: boolean;
  /** The payload of a call. Throws `SvcError` (code `SVC_CAPTURE_EXPRESSION`) and never returns a value that a failed expression made up. */
  readonly payload: (call: Call) => unknown;
  /** The record key of a call; `undefined` where none was declared. */
  readonly key?: ((call: Call) => string | undefined) | undefined;
}

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
