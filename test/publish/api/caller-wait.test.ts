import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type sinon from 'sinon';
import type { Outcome } from '../../../src/observe/outcomes.ts';
import { createCallerWait, createInFlight } from '../../../src/publish/api/caller-wait.ts';
import { fakeTime, useClock } from '../../support/fake-time.ts';

describe('caller wait', () => {
  let clock: sinon.SinonFakeTimers;

  beforeEach(() => {
    clock = fakeTime();
  });
  afterEach(() => clock.restore());

  it('lets each go when its own time is over, with one timer for all', async () => {
    const callers = createCallerWait(2_000);
    const gone: string[] = [];
    const wait = (name: string) =>
      void callers.forOutcome(new Promise(() => {})).then((outcome) => gone.push(`${name} ${outcome}`));
    wait('first');
    await clock.tickAsync(700);
    wait('second');
    assert.equal(clock.countTimers(), 1);
    await clock.tickAsync(1_299);
    assert.deepEqual(gone, []);
    await clock.tickAsync(1);
    assert.deepEqual(gone, ['first undefined']);
    await clock.tickAsync(699);
    assert.equal(gone.length, 1);
    await clock.tickAsync(1);
    assert.deepEqual(gone, ['first undefined', 'second undefined']);
    assert.equal(clock.countTimers(), 0);
  });

  it('gives the outcome that comes first', async () => {
    const callers = createCallerWait(2_000);
    let settle = (_: Outcome): void => {};
    const outcome = callers.forOutcome(new Promise((resolve) => (settle = resolve)));
    await clock.tickAsync(1_999);
    settle('backup');
    assert.equal(await outcome, 'backup');
  });

  it('runs its timer outside of the context of any call', async () => {
    const storage = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    useClock({
      monotonic: () => {
        seen.push(storage.getStore());
        return performance.now();
      },
    });
    const callers = createCallerWait(10);
    storage.run('request', () => void callers.forOutcome(new Promise(() => {})));
    await clock.tickAsync(10);
    assert.deepEqual(seen, ['request', undefined]);
  });
});

describe('a caller with a time of its own', () => {
  it('leaves no timer behind when its outcome is there', async () => {
    const clock = fakeTime();
    try {
      const callers = createCallerWait(2_000);
      assert.equal(await callers.untilStored(Promise.resolve('published'), 60_000), 'published');
      assert.equal(clock.countTimers(), 0);
      const late = assert.rejects(callers.untilStored(new Promise(() => {}), 100), {
        code: 'SVC_PUBLISH_TIMEOUT',
      });
      await clock.tickAsync(100);
      await late;
    } finally {
      clock.restore();
    }
  });
});

describe('where something blocks the event loop', () => {
  const ways: Readonly<Record<string, (outcome: Promise<Outcome>) => Promise<Outcome | undefined>>> = {
    'all callers': (outcome) => createCallerWait(100).forOutcome(outcome),
    'a caller with a time of its own': (outcome) => createCallerWait(60_000).untilStored(outcome, 100),
  };
  it('again and again, nobody waits for more than one turn longer', async () => {
    const outcome = createCallerWait(100).forOutcome(new Promise(() => {}));
    let turns = 0;
    let isOver = false;
    const block = (): void => {
      const blockedUntil = performance.now() + 120;
      while (performance.now() < blockedUntil);
      if (!isOver && ++turns < 20) setImmediate(block);
    };
    setImmediate(block);
    assert.equal(await outcome, undefined);
    isOver = true;
    assert.ok(turns <= 4, `${turns} turns`);
  });

  for (const [who, wait] of Object.entries(ways))
    it(`an answer that came in time is read first: ${who}`, async () => {
      const worker = new Worker(
        `const { parentPort } = require('node:worker_threads');
         parentPort.postMessage('ready');
         parentPort.once('message', () => parentPort.postMessage('published'));`,
        { eval: true },
      );
      try {
        await once(worker, 'message');
        const answer = once(worker, 'message').then(([outcome]) => outcome as Outcome);
        // Timers come right after this turn, and what was received only after them.
        await new Promise(setImmediate);
        const outcome = wait(answer);
        worker.postMessage('go');
        const blockedUntil = performance.now() + 400;
        while (performance.now() < blockedUntil);
        assert.equal(await outcome, 'published');
      } finally {
        await worker.terminate();
      }
    });
});

describe('what is under way', () => {
  it('a flush waits for what was there, not for what comes meanwhile', async () => {
    const inFlight = createInFlight();
    const done: string[] = [];
    await inFlight.soFar();
    const before = inFlight.begin();
    void inFlight.soFar().then(() => done.push('first'));
    const after = inFlight.begin();
    void inFlight.soFar().then(() => done.push('second'));
    void inFlight.idle().then(() => done.push('idle'));
    inFlight.end(before);
    await new Promise(setImmediate);
    assert.deepEqual(done, ['first']);
    inFlight.end(after);
    await new Promise(setImmediate);
    assert.deepEqual(done.sort(), ['first', 'idle', 'second']);
  });

  it('a later flush waits for what an earlier one waits for', async () => {
    const inFlight = createInFlight();
    let isDone = false;
    const first = inFlight.begin();
    void inFlight.soFar();
    void inFlight.soFar().then(() => (isDone = true));
    await new Promise(setImmediate);
    assert.equal(isDone, false);
    inFlight.end(first);
    await new Promise(setImmediate);
    assert.equal(isDone, true);
  });
});
