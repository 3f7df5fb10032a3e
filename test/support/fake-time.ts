import sinon from 'sinon';
import { systemClock } from '../../src/ground/clock.ts';

/** Fake timers, and the clock that svc measures with, which sinon leaves as it is. */
export function fakeTime(): sinon.SinonFakeTimers {
  const time = sinon.useFakeTimers();
  const now = sinon.stub(systemClock, 'monotonic').callsFake(() => time.performance.now());
  const restore = time.restore.bind(time);
  return Object.assign(time, {
    restore: () => {
      now.restore();
      restore();
    },
  });
}

/** Fake timers of a suite, anew before each of its tests and gone after it. What it gives is the clock of the test that runs. */
export function clockOfEach(options?: Parameters<typeof sinon.useFakeTimers>[0]): sinon.SinonFakeTimers {
  let current: sinon.SinonFakeTimers;
  beforeEach('fake timers', () => {
    current = sinon.useFakeTimers(options);
  });
  afterEach('real timers', () => current.restore());
  return new Proxy({} as sinon.SinonFakeTimers, { get: (_, name) => Reflect.get(current, name) });
}
