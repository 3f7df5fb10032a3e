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
