import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { promisify } from 'node:util';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { deferred, recordingSlot, turn } from '../recording-slot.ts';

type Callback = (error: unknown, ...results: unknown[]) => unknown;

const declined = new Error('declined');
const fault = new Error('event lost');
const plan = { callback: 'last' } as const;

/** Calls back in a later turn, with everything that it is given. */
function charge(_card: string, given: unknown[], callback: Callback): string {
  setImmediate(() => Reflect.apply(callback, { gateway: 1 }, given));
  return 'on its way';
}

const heard = (fn: (callback: Callback) => unknown) =>
  new Promise<unknown[]>((resolve) => fn((...values) => resolve(values)));

describe('wrapFunction: callbacks', () => {
  for (const [name, given, result] of [
    ['a value', [null, { id: 1 }], { id: 1 }],
    ['no value', [], undefined],
    ['several values, a list', [undefined, 1, 2], [1, 2]],
  ] as const) {
    it(`make the event when they are called, with ${name}`, async () => {
      const slot = recordingSlot(plan);
      const captured = wrapFunction(charge, slot);
      const values = await heard((callback) => {
        assert.equal(captured('4111', [...given], callback), 'on its way');
        assert.equal(slot.calls, 0);
      });
      assert.deepEqual(values, given);
      assert.equal(slot.seen.length, 1);
      assert.deepEqual(slot.seen[0]?.result, result);
      assert.equal(slot.seen[0]?.error, undefined);
      assert.equal(slot.seen[0]?.args[0], '4111');
    });
  }

  it('with an error make none, and one in phase AFTER; the call is counted once', async () => {
    const returning = recordingSlot(plan);
    const call = (slot: typeof returning) =>
      heard((callback) => wrapFunction(charge, slot)('4111', [declined], callback));
    assert.deepEqual(await call(returning), [declined]);
    assert.deepEqual([returning.calls, returning.failed, returning.seen.length], [1, 1, 0]);
    const after = recordingSlot({ ...plan, phase: 'AFTER' });
    assert.deepEqual(await call(after), [declined]);
    assert.deepEqual([after.calls, after.failed, after.seen[0]?.error], [1, 0, declined]);
    assert.equal(after.seen[0]?.result, null);
  });

  it('get this, the arguments and every further call, and their function what they return', async () => {
    const slot = recordingSlot(plan);
    const calls: unknown[] = [];
    let returned: unknown[] = [];
    const twice = wrapFunction((callback: Callback) => {
      setImmediate(() => {
        returned = [callback.call('a', null, 1), callback.call('b', declined), callback.call('c', null, 2)];
      });
    }, slot);
    twice(function (this: unknown, ...values: unknown[]) {
      calls.push([this, ...values]);
      return calls.length;
    });
    await turn();
    assert.deepEqual(
      calls,
      [
        [Object('a'), null, 1],
        [Object('b'), declined],
        [Object('c'), null, 2],
      ].map(([self, ...values]) => [String(self), ...values]),
    );
    assert.deepEqual(returned, [1, 2, 3]);
    assert.deepEqual([slot.calls, slot.seen[0]?.result], [1, 1]);
  });

  it('look to their function as they are', () => {
    const callback = Object.assign(function paid(_error: unknown, _value: unknown) {}, { tag: 7 });
    wrapFunction((given: typeof callback) => {
      assert.deepEqual([given.length, given.name, given.tag], [2, 'paid', 7]);
    }, recordingSlot(plan))(callback);
  });

  it('wait for their event as a promise would', async () => {
    const event = deferred();
    const slot = recordingSlot(plan, () => event.promise);
    let values: unknown[] | undefined;
    wrapFunction(charge, slot)('4111', [null, 1], (...given) => {
      values = given;
    });
    await turn();
    await turn();
    assert.equal(slot.seen[0]?.canWait, true);
    assert.equal(values, undefined);
    event.resolve();
    await turn();
    assert.deepEqual(values, [null, 1]);
  });

  it('hear of a lost event with failOnError, and nothing of it without', async () => {
    for (const answer of [
      () => Promise.reject(fault),
      () => {
        throw fault;
      },
    ]) {
      const call = (failOnError: boolean) =>
        heard((callback) =>
          wrapFunction(charge, recordingSlot({ ...plan, failOnError }, answer))('4111', [null, 1], callback),
        );
      assert.deepEqual(await call(true), [fault]);
      assert.deepEqual(await call(false), [null, 1]);
    }
  });

  it('called before their function has returned are called at once: their caller may count on that', () => {
    const slot = recordingSlot(plan, () => new Promise(() => {}));
    let value: unknown;
    wrapFunction(
      (callback: Callback) => callback(null, 1),
      slot,
    )((_, given) => {
      value = given;
    });
    assert.equal(value, 1);
    assert.deepEqual([slot.seen[0]?.canWait, slot.calls], [false, 1]);
  });

  it('that throw do so as before: at once to their function, later as an uncaught exception', async () => {
    const slot = recordingSlot(plan);
    const fail = () => {
      throw declined;
    };
    assert.throws(() => wrapFunction((callback: Callback) => callback(null, 1), slot)(fail), declined);
    assert.deepEqual([slot.calls, slot.failed], [1, 0]);

    const mocha = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    try {
      const uncaught = new Promise((resolve) => process.once('uncaughtException', resolve));
      wrapFunction(
        charge,
        recordingSlot(plan, async () => {}),
      )('4111', [null, 1], fail);
      assert.equal(await uncaught, declined);
    } finally {
      for (const listener of mocha) process.on('uncaughtException', listener);
    }
  });

  it('that are never called because their function throws: the call has failed', () => {
    const slot = recordingSlot(plan);
    const sell = (_callback: Callback): never => {
      throw declined;
    };
    assert.throws(() => wrapFunction(sell, slot)(() => {}), declined);
    assert.deepEqual([slot.calls, slot.failed], [1, 1]);
    const after = recordingSlot({ ...plan, phase: 'AFTER' });
    assert.throws(() => wrapFunction(sell, after)(() => {}), declined);
    assert.equal(after.seen[0]?.error, declined);
  });

  it('keep their own asynchronous context; the event has that of the call', async () => {
    const storage = new AsyncLocalStorage<string>();
    for (const answer of [() => undefined, () => Promise.resolve()]) {
      let ofEvent: string | undefined;
      const slot = recordingSlot(plan, () => {
        ofEvent = storage.getStore();
        return answer();
      });
      const pooled = wrapFunction((callback: Callback) => {
        setImmediate(() => storage.run('pool', callback, null));
      }, slot);
      const ofCallback = await new Promise((resolve) =>
        storage.run('request', () => pooled(() => resolve(storage.getStore()))),
      );
      assert.deepEqual([ofEvent, ofCallback], ['request', 'pool']);
    }
  });

  it('are made by promisify as well', async () => {
    const slot = recordingSlot(plan);
    const captured = promisify(wrapFunction(charge, slot));
    assert.equal(await captured('4111', [null, 'paid']), 'paid');
    assert.equal(slot.seen[0]?.result, 'paid');
  });

  it('that are missing: the call is as any other', async () => {
    const slot = recordingSlot(plan);
    const either = wrapFunction(async (id: number, _callback?: Callback) => id, slot);
    assert.equal(await either(7), 7);
    assert.deepEqual([slot.calls, slot.seen[0]?.result], [1, 7]);
  });
});
