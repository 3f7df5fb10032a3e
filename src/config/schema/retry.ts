import { maxTimerMs, type Option } from './option.ts';

/** How sends are repeated. */
export const retryOptions = [
  {
    name: 'svc.retry.enabled',
    type: 'boolean',
    default: true,
    description: 'Retries failed sends. When false a failed event goes to the next tier at once.',
  },
  {
    name: 'svc.retry.max-attempts',
    type: 'integer',
    min: 1,
    max: 100,
    default: 3,
    description:
      'Retries after the first try, which is immediate. Events behind wait, so that their order is kept.',
  },
  {
    name: 'svc.retry.initial-interval',
    type: 'integer',
    unit: 'ms',
    min: 1,
    max: maxTimerMs,
    default: 1_000,
    description: 'Wait before the first retry.',
  },
  {
    name: 'svc.retry.multiplier',
    type: 'number',
    min: 1,
    max: 100,
    default: 2,
    description: 'Growth of the wait from one retry to the next: 1 s, 2 s, 4 s by default.',
  },
  {
    name: 'svc.retry.max-interval',
    type: 'integer',
    unit: 'ms',
    min: 1,
    max: maxTimerMs,
    default: 10_000,
    description: 'Longest wait between retries.',
  },
  {
    name: 'svc.retry.jitter',
    type: 'boolean',
    default: false,
    description:
      'Makes each wait up to 20 % shorter or longer, so that many processes do not come back at once.',
  },
] as const satisfies readonly Option[];
