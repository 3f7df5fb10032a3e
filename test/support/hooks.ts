import { realClock } from './fake-time.ts';
import { usualLogger } from './log.ts';

// For each process of mocha: svc says nothing, and has the real clock, unless a test sets another one.
usualLogger();

export const mochaHooks = {
  afterEach(): void {
    usualLogger();
    realClock();
  },
};
