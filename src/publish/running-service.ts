import { shared } from '../lifecycle.ts';
import type { Producer } from './producer.ts';

/** The one service of this process, whichever copy of the package started it. */
export const runningService: { current: { readonly producer: Producer } | undefined } = shared(
  'service',
  () => ({
    current: undefined,
  }),
);
