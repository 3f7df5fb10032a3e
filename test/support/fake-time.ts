import { performance } from 'node:perf_hooks';
import sinon from 'sinon';

/** Fake timers, and the clock that svc measures with: it reads Node's own, which sinon leaves as it is. */
export function fakeTime(): sinon.SinonFakeTimers {
  const time = sinon.useFakeTimers();
  const now = sinon.stub(performance, 'now').callsFake(() => time.performance.now());
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
