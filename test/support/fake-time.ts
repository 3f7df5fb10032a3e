import sinon from 'sinon';
import { clock } from '../../src/ground/clock.ts';

type Clock = typeof clock;

const real: Clock = { ...clock };

/** svc measures time with this clock until the test ends. What `fake` leaves out is real. */
export function useClock<Fake extends Partial<Clock>>(fake: Fake): Fake {
  realClock();
  if (fake.now !== undefined) clock.now = () => (fake as Clock).now();
  if (fake.monotonic !== undefined) clock.monotonic = () => (fake as Clock).monotonic();
  return fake;
}

/** The clock of the globals that sinon fakes. svc itself reads the time in another way. */
export const clockOfGlobals: Clock = { now: () => Date.now(), monotonic: () => performance.now() };

export function realClock(): void {
  Object.assign(clock, real);
}

/** Fake timers, and the clock that svc measures with. */
export function fakeTime(options?: Parameters<typeof sinon.useFakeTimers>[0]): sinon.SinonFakeTimers {
  const time = sinon.useFakeTimers(options);
  useClock(clockOfGlobals);
  return time;
}

/** Fake timers of a suite, anew before each of its tests and gone after it. What it gives is the clock of the test that runs. */
export function clockOfEach(options?: Parameters<typeof sinon.useFakeTimers>[0]): sinon.SinonFakeTimers {
  let current: sinon.SinonFakeTimers;
  beforeEach('fake timers', () => {
    current = fakeTime(options);
  });
  afterEach('real timers', () => current.restore());
  return new Proxy({} as sinon.SinonFakeTimers, { get: (_, name) => Reflect.get(current, name) });
}
