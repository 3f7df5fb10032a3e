import assert from 'node:assert/strict';
import sinon from 'sinon';
import { watchProcessEnd } from '../../src/preload/preload.ts';

// What signals and exits do to a whole process: test/e2e/preload/process-end.test.ts.
describe('watchProcessEnd', () => {
  const watch = (pending: () => number, isFinished = true): { finished: number[]; unwatch: () => void } => {
    const finished: number[] = [];
    const finish = async (deadlineMs: number): Promise<boolean> => {
      finished.push(deadlineMs);
      return isFinished;
    };
    const isBusy = (): boolean => false;
    return {
      finished,
      unwatch: watchProcessEnd({ pending, isBusy, finish, deadlineMs: 700, report: () => {} }),
    };
  };
  const beforeExit = async (): Promise<void> => {
    process.emit('beforeExit', 0);
    await new Promise((resolve) => setImmediate(resolve));
  };

  it('waits for events when the process has nothing more to do, each time there are some', async () => {
    let pending = 2;
    const { finished, unwatch } = watch(() => pending);
    try {
      const first = beforeExit();
      pending = 0;
      await first;
      await beforeExit();
      assert.deepEqual(finished, [700]);
      pending = 1;
      await beforeExit();
      assert.deepEqual(finished, [700, 700]);
    } finally {
      unwatch();
    }
  });

  it('waits for a relay that has something to finish, and no longer than it has', async () => {
    let isBusy = true;
    const finished: number[] = [];
    const unwatch = watchProcessEnd({
      pending: () => 0,
      isBusy: () => isBusy,
      async finish(deadlineMs) {
        finished.push(deadlineMs);
        isBusy = false;
        return true;
      },
      deadlineMs: 700,
      report: () => {},
    });
    try {
      await beforeExit();
      await beforeExit();
      assert.deepEqual(finished, [700]);
    } finally {
      unwatch();
    }
  });

  it('waits again for events that were made when it had waited for others', async () => {
    const { finished, unwatch } = watch(() => 1);
    try {
      await beforeExit();
      await beforeExit();
      assert.deepEqual(finished, [700, 700]);
    } finally {
      unwatch();
    }
  });

  it('does not wait a second time for what the deadline left over', async () => {
    const { finished, unwatch } = watch(() => 1, false);
    try {
      await beforeExit();
      await beforeExit();
      assert.deepEqual(finished, [700]);
    } finally {
      unwatch();
    }
  });

  it('as the first process of a container, which no such signal ends, goes on after it', async () => {
    sinon.stub(process, 'pid').value(1);
    const kill = sinon.stub(process, 'kill');
    const done: string[] = [];
    const unwatch = watchProcessEnd({
      pending: () => 0,
      isBusy: () => false,
      finish: async () => done.push('finish') > 0,
      deadlineMs: 700,
      report: () => done.push('report'),
    });
    try {
      for (let times = 0; times < 2; times++) {
        process.emit('SIGTERM', 'SIGTERM');
        await new Promise((resolve) => setImmediate(resolve));
      }
      assert.deepEqual(done, ['finish', 'finish']);
      sinon.assert.notCalled(kill);
    } finally {
      unwatch();
      sinon.restore();
    }
  });

  for (const [what, signalMs, meanwhileMs, left] of [
    ['nothing of it is spent', 0, 100, 2_000],
    ['half of it is spent', 1_000, 100, 1_000],
    ['all of it is spent: new events have a moment', 2_000, 100, 500],
    ['all of it is spent, and the application worked on for longer than it', 2_000, 2_001, 2_000],
  ] as const) {
    it(`a signal that the application handles and the natural end share one deadline: ${what}`, async () => {
      const clock = sinon.useFakeTimers();
      const handle = (): void => {};
      const finished: [number, string][] = [];
      process.on('SIGTERM', handle);
      const unwatch = watchProcessEnd({
        pending: () => 1,
        isBusy: () => false,
        async finish(deadlineMs, end) {
          finished.push([deadlineMs, end]);
          await clock.tickAsync(end === 'handled' ? signalMs : 0);
          return true;
        },
        deadlineMs: 2_000,
        report: () => {},
      });
      try {
        process.emit('SIGTERM', 'SIGTERM');
        await clock.tickAsync(meanwhileMs);
        process.emit('beforeExit', 0);
        assert.deepEqual(finished, [
          [2_000, 'handled'],
          [left, 'natural'],
        ]);
      } finally {
        unwatch();
        process.removeListener('SIGTERM', handle);
        clock.restore();
      }
    });
  }

  it('takes all its listeners off again', () => {
    const names = ['beforeExit', 'exit', 'SIGTERM', 'SIGINT'] as const;
    const count = (): number[] => names.map((name) => process.listenerCount(name));
    const before = count();
    const { unwatch } = watch(() => 0);
    assert.deepEqual(
      count(),
      before.map((each) => each + 1),
    );
    unwatch();
    assert.deepEqual(count(), before);
  });
});
