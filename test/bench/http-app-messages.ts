import type { Target } from './bench-client.ts';

export const eventsPerRequest = 5;

export interface HttpAppSetup {
  /** `undefined`: no event is published. */
  readonly publisher?: Target & { readonly kind: 'svc' | 'hand-best'; readonly client: string };
}

/** What the process tells of itself. */
export interface AppUsage {
  /** Since it was started. */
  readonly cpuUs: number;
  /** Milliseconds between two turns of the event loop with a timer of 1 ms, since it was last asked. */
  readonly delayP99: number;
  readonly delayMax: number;
  /** Milliseconds of the longest turn in which svc encoded; 0 without svc. */
  readonly encodingMax: number;
}
