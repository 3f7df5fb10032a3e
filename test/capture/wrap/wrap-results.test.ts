import assert from 'node:assert/strict';
import { describe, it } from 'mocha';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { isOwnWork } from '../../../src/ground/lifecycle.ts';
import { deferred, recordingSlot, turn } from '../recording-slot.ts';

const fault = new Error('event lost');

describe('wrapFunction: synchronous functions', () => {
  it('tell of their value at once and wait for nothing', () => {
    const slot = recordingSlot({}, () => new Promise(() => {}));
    assert.deepEqual(wrapFunction(() => ({ id: 1 }), slot)(), { id: 1 });
    assert.deepEqual(slot.seen[0]?.result, { id: 1 });
    assert.equal(slot.seen[0]?.canWait, false);
  });

  it('never notice a rejected event', async () => {
    for (const failOnError of [false, true]) {
      const slot = recordingSlot({ failOnError }, () => Promise.reject(fault));
      assert.equal(wrapFunction(() => 1, slot)(), 1);
      await turn();
      assert.equal(slot.calls, 1);
    }
  });

  it('get what onCall threw with failOnError, and nothing of it without', () => {
    const onCall = () => {
      throw fault;
    };
    assert.throws(() => wrapFunction(() => 1, recordingSlot({ failOnError: true }, onCall))(), fault);
    assert.equal(wrapFunction(() => 1, recordingSlot({}, onCall))(), 1);
  });

  it('that throw: phase AFTER tells, AFTER_RETURNING does not, and the error goes on', () => {
    const error = new Error('sold out');
    const sell = () => {
      throw error;
    };
    const after = recordingSlot({ phase: 'AFTER' });
    assert.throws(() => wrapFunction(sell, after)(), error);
    assert.equal(after.seen[0]?.error, error);
    assert.equal(after.seen[0]?.result, null);
    assert.equal(after.seen[0]?.canWait, false);
    assert.equal(after.calls, 1);
    const returning = recordingSlot();
    assert.throws(() => wrapFunction(sell, returning)(), error);
    assert.deepEqual([returning.calls, returning.failed, returning.seen.length], [1, 1, 0]);
  });

  it('keep their own error where the event fails as well', () => {
    const error = new Error('sold out');
    const slot = recordingSlot({ phase: 'AFTER', failOnError: true }, () => {
      throw fault;
    });
    const sell = () => {
      throw error;
    };
    assert.throws(() => wrapFunction(sell, slot)(), error);
  });

  it('that return a proxy: it is asked for `then` alone, as `await` would', async () => {
    const asked: (string | symbol)[] = [];
    const traps = Object.fromEntries(
      Object.getOwnPropertyNames(Reflect).map((trap) => [
        trap,
        (target: object, key: string, ...more: unknown[]) => {
          asked.push(trap === 'get' ? key : `${trap} ${String(key)}`);
          return Reflect.apply(Reflect.get(Reflect, trap), Reflect, [target, key, ...more]);
        },
      ]),
    );
    for (const target of [() => {}, {}, Promise.resolve(), (async function* () {})()]) {
      const proxy = new Proxy<object>(target, { ...traps, get: (_, key) => void asked.push(key) });
      assert.equal(wrapFunction(() => proxy, recordingSlot())(), proxy);
      assert.deepEqual(asked.splice(0), ['then']);
    }
  });

  it('run their event as own work', () => {
    let inside = false;
    const slot = recordingSlot({}, () => {
      inside = isOwnWork();
      return undefined;
    });
    wrapFunction(() => 1, slot)();
    assert.equal(inside, true);
    assert.equal(isOwnWork(), false);
  });
});

describe('wrapFunction: promises', () => {
  it('resolve as before, after the event was handed over', async () => {
    const slot = recordingSlot();
    const order: string[] = [];
    const { onCall } = slot;
    slot.onCall = (call) => {
      order.push('event');
      return onCall?.(call);
    };
    const value = await wrapFunction(async () => 5, slot)();
    order.push('caller');
    assert.equal(value, 5);
    assert.deepEqual(order, ['event', 'caller']);
    assert.equal(slot.seen[0]?.result, 5);
    assert.equal(slot.seen[0]?.canWait, true);
  });

  it('cost one further microtask and no more', async () => {
    const ticksOf = async (f: () => Promise<unknown>): Promise<number> => {
      let ticks = 0;
      let isDone = false;
      const counting = (async () => {
        while (!isDone) {
          await undefined;
          ticks++;
        }
      })();
      await f();
      isDone = true;
      await counting;
      return ticks;
    };
    const bare = async () => 1;
    const extra = (await ticksOf(wrapFunction(bare, recordingSlot()))) - (await ticksOf(bare));
    assert.equal(extra, 1);
  });

  it('wait for the event where onCall says so', async () => {
    const event = deferred();
    let isDone = false;
    const call = wrapFunction(
      async () => 5,
      recordingSlot({}, () => event.promise),
    )().then((value) => {
      isDone = true;
      return value;
    });
    await turn();
    assert.equal(isDone, false);
    event.resolve();
    assert.equal(await call, 5);
  });

  it('reject with the event only with failOnError', async () => {
    const rejecting = () => Promise.reject(fault);
    await assert.rejects(
      wrapFunction(async () => 1, recordingSlot({ failOnError: true }, rejecting))(),
      fault,
    );
    assert.equal(await wrapFunction(async () => 1, recordingSlot({}, rejecting))(), 1);
    const throwing = () => {
      throw fault;
    };
    await assert.rejects(
      wrapFunction(async () => 1, recordingSlot({ failOnError: true }, throwing))(),
      fault,
    );
    assert.equal(await wrapFunction(async () => 1, recordingSlot({}, throwing))(), 1);
  });

  it('that reject: phase AFTER tells and waits, AFTER_RETURNING does neither', async () => {
    const error = new Error('sold out');
    const sell = async () => {
      throw error;
    };
    const event = deferred();
    const after = recordingSlot({ phase: 'AFTER' }, () => event.promise);
    let isDone = false;
    const call = wrapFunction(sell, after)().catch((reason: unknown) => {
      isDone = true;
      return reason;
    });
    await turn();
    assert.equal(after.seen[0]?.error, error);
    assert.equal(after.seen[0]?.canWait, true);
    assert.equal(isDone, false);
    event.resolve();
    assert.equal(await call, error);
    const returning = recordingSlot();
    await assert.rejects(wrapFunction(sell, returning)(), error);
    assert.deepEqual([returning.calls, returning.failed, returning.seen.length], [1, 1, 0]);
  });

  it('keep their own error where the event fails as well', async () => {
    const error = new Error('sold out');
    const sell = async () => {
      throw error;
    };
    const rejecting = recordingSlot({ phase: 'AFTER', failOnError: true }, () => Promise.reject(fault));
    await assert.rejects(wrapFunction(sell, rejecting)(), error);
    const throwing = recordingSlot({ phase: 'AFTER', failOnError: true }, () => {
      throw fault;
    });
    await assert.rejects(wrapFunction(sell, throwing)(), error);
  });

  it('stay unhandled where the application leaves them so, once', async () => {
    const seen: unknown[] = [];
    const listener = (reason: unknown) => seen.push(reason);
    const others = process.rawListeners('unhandledRejection') as ((reason: unknown) => void)[];
    process.removeAllListeners('unhandledRejection');
    process.on('unhandledRejection', listener);
    try {
      const error = new Error('nobody looks');
      wrapFunction(
        async () => {
          throw error;
        },
        recordingSlot({ phase: 'AFTER' }),
      )();
      await turn();
      await turn();
      assert.deepEqual(seen, [error]);
    } finally {
      process.off('unhandledRejection', listener);
      for (const other of others) process.on('unhandledRejection', other);
    }
  });

  it('keep their class and what sits on them', async () => {
    class Cancellable<T> extends Promise<T> {
      cancel() {
        return 'cancelled';
      }
    }
    const promise = wrapFunction(() => Cancellable.resolve(1) as Cancellable<number>, recordingSlot())();
    assert.ok(promise instanceof Cancellable);
    assert.equal(promise.cancel(), 'cancelled');
    const child = wrapFunction(() => Object.assign(Promise.resolve(1), { pid: 3 }), recordingSlot())();
    assert.equal(child.pid, 3);
    assert.equal(await child, 1);
  });

  it('use the slot as it is when the result is there: capture switched off meanwhile makes no event', async () => {
    const slot = recordingSlot();
    const gate = deferred<number>();
    const call = wrapFunction(() => gate.promise, slot)();
    slot.onCall = null;
    gate.resolve(1);
    assert.equal(await call, 1);
    assert.equal(slot.calls, 0);
  });
});

describe('wrapFunction: phase BEFORE', () => {
  it('tells before the call, with the arguments as they are then', () => {
    const order: string[] = [];
    let seenLength = -1;
    const slot = recordingSlot({ phase: 'BEFORE' }, (call) => {
      order.push('event');
      seenLength = (call.args[0] as unknown[]).length;
      return undefined;
    });
    const wrapped = wrapFunction((list: number[]) => {
      order.push('function');
      list.push(1);
      return list;
    }, slot);
    wrapped([]);
    assert.deepEqual(order, ['event', 'function']);
    assert.equal(seenLength, 0);
    assert.equal(slot.seen[0]?.result, null);
    assert.equal(slot.calls, 1);
  });

  it('tells once, also of a function that throws', async () => {
    const slot = recordingSlot({ phase: 'BEFORE' });
    await assert.rejects(
      wrapFunction(async () => {
        throw fault;
      }, slot)(),
      fault,
    );
    assert.equal(slot.calls, 1);
  });

  it('starts the function at once; its promise waits for the event', async () => {
    const event = deferred();
    let isStarted = false;
    let isDone = false;
    const slot = recordingSlot({ phase: 'BEFORE' }, () => event.promise);
    const call = wrapFunction(async () => {
      isStarted = true;
      return 4;
    }, slot)().then((value) => {
      isDone = true;
      return value;
    });
    assert.equal(isStarted, true);
    await turn();
    assert.equal(isDone, false);
    event.reject(fault);
    assert.equal(await call, 4);
  });

  it('with failOnError the function does not run when its event failed', async () => {
    let runs = 0;
    const run = () => {
      runs++;
    };
    const throwing = recordingSlot({ phase: 'BEFORE', failOnError: true }, () => {
      throw fault;
    });
    assert.throws(() => wrapFunction(run, throwing)(), fault);
    const asynchronous = async () => run();
    await assert.rejects(wrapFunction(asynchronous, throwing)(), fault);
    const rejecting = recordingSlot({ phase: 'BEFORE', failOnError: true }, () => Promise.reject(fault));
    await assert.rejects(wrapFunction(asynchronous, rejecting)(), fault);
    assert.equal(runs, 0);
    // Not known to be asynchronous before it runs: the promise it returns fails.
    await assert.rejects(wrapFunction(() => Promise.resolve(run()), rejecting)(), fault);
    assert.equal(runs, 1);
    wrapFunction(run, rejecting)();
    assert.equal(runs, 2);
    await turn();
  });
});
