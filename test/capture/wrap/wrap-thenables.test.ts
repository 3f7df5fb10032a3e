import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { context, createContextKey } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { after, afterEach, before, describe, it } from 'mocha';
import { notesAbout } from '../../../src/capture/report.ts';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { forgetNotes } from '../notes.ts';
import { deferred, recordingSlot, turn } from '../recording-slot.ts';

/** As query builders are: chainable, and running when `then` is called. */
class Builder {
  runs = 0;
  conditions: string[] = [];
  constructor(private_result: () => unknown) {
    this.result = private_result;
  }
  result: () => unknown;
  where(condition: string) {
    this.conditions.push(condition);
    return this;
  }
  // biome-ignore lint/suspicious/noThenProperty: a thenable is what this test is about
  then(onValue?: (value: unknown) => unknown, onError?: (error: unknown) => unknown) {
    this.runs++;
    return Promise.resolve().then(this.result).then(onValue, onError);
  }
  catch(onError: (error: unknown) => unknown) {
    return this.then().catch(onError);
  }
  finally(handler: () => void) {
    return this.then().finally(handler);
  }
}

/** As Prisma's: `catch` and `finally` do not go through `then`. */
function closed(run: () => Promise<unknown>) {
  let started: Promise<unknown> | undefined;
  const start = () => {
    started ??= run();
    return started;
  };
  return {
    // biome-ignore lint/suspicious/noThenProperty: a thenable is what this test is about
    then: (onValue?: (value: unknown) => unknown, onError?: (error: unknown) => unknown) =>
      start().then(onValue, onError),
    catch: (onError: (error: unknown) => unknown) => start().catch(onError),
    finally: (handler: () => void) => start().finally(handler),
  };
}

const fault = new Error('no such table');
const failing = () => {
  throw fault;
};

describe('wrapFunction: lazy thenables', () => {
  afterEach(forgetNotes);

  it('keep a `then` that is not that of a promise: it gets the very value', () => {
    const slot = recordingSlot();
    const taken: unknown[] = [];
    // biome-ignore lint/suspicious/noThenProperty: a builder, as that of SQL's CASE
    const builder = { then: (...values: unknown[]) => taken.push(values) };
    const when = wrapFunction(() => builder, slot);
    for (const value of [5, null, 'x', { a: 1 }]) when().then(value);
    assert.deepEqual(taken, [[5], [null], ['x'], [{ a: 1 }]]);
    assert.deepEqual(slot.seen, []);
  });

  it('come back as they are and run when their caller awaits them, once', async () => {
    const slot = recordingSlot();
    const builder = new Builder(() => ['row']);
    const result = wrapFunction(() => builder, slot)();
    assert.equal(result, builder);
    await turn();
    assert.equal(builder.runs, 0, 'not run by us');
    assert.equal(slot.calls, 0);
    assert.deepEqual(await result.where('a = 1'), ['row']);
    assert.equal(builder.runs, 1);
    assert.deepEqual(builder.conditions, ['a = 1']);
    assert.equal(slot.calls, 1);
    assert.deepEqual(slot.seen[0]?.result, ['row']);
    assert.equal(slot.seen[0]?.canWait, true);
  });

  it('keep their visible shape', () => {
    const builder = new Builder(() => 1);
    const before = Object.keys(builder);
    wrapFunction(() => builder, recordingSlot())();
    assert.deepEqual(Object.keys(builder), before);
    assert.ok(builder instanceof Builder);
  });

  it('that nobody awaits make no event', async () => {
    const slot = recordingSlot();
    wrapFunction(() => new Builder(() => 1), slot)();
    await turn();
    assert.equal(slot.calls, 0);
  });

  it('publish once over several awaits; the second runs as its library says', async () => {
    const slot = recordingSlot();
    const builder = wrapFunction(() => new Builder(() => 1), slot)();
    await builder;
    await builder;
    assert.equal(builder.runs, 2);
    assert.equal(slot.calls, 1);
  });

  it('returned by an async function are awaited by it: one run, one event', async () => {
    const slot = recordingSlot();
    const builder = new Builder(() => 3);
    assert.equal(await wrapFunction(async () => builder, slot)(), 3);
    assert.equal(builder.runs, 1);
    assert.equal(slot.calls, 1);
  });

  it('captured by two functions on their way make an event of each', async () => {
    const inner = recordingSlot();
    const outer = recordingSlot({ id: 'outer' });
    const find = wrapFunction(() => new Builder(() => 3), inner);
    const builder = wrapFunction(() => find(), outer)();
    assert.equal(await builder, 3);
    assert.equal(builder.runs, 1);
    assert.deepEqual([inner.calls, outer.calls], [1, 1]);
  });

  it('that fail: phase AFTER tells, AFTER_RETURNING does not, the error goes on', async () => {
    const after = recordingSlot({ phase: 'AFTER' });
    await assert.rejects(async () => wrapFunction(() => new Builder(failing), after)(), fault);
    assert.equal(after.seen[0]?.error, fault);
    assert.equal(after.calls, 1);
    const returning = recordingSlot();
    await assert.rejects(async () => wrapFunction(() => new Builder(failing), returning)(), fault);
    assert.deepEqual([returning.calls, returning.failed, returning.seen.length], [1, 1, 0]);
  });

  it('wait for the event, and fail with it only with failOnError', async () => {
    const event = deferred();
    let isDone = false;
    const waiting = (async () => {
      const value = await wrapFunction(
        () => new Builder(() => 1),
        recordingSlot({}, () => event.promise),
      )();
      isDone = true;
      return value;
    })();
    await turn();
    assert.equal(isDone, false);
    event.reject(fault);
    assert.equal(await waiting, 1);
    for (const onCall of [() => Promise.reject(fault), failing]) {
      const strict = recordingSlot({ failOnError: true }, onCall);
      await assert.rejects(async () => wrapFunction(() => new Builder(() => 1), strict)(), fault);
      assert.equal(await wrapFunction(() => new Builder(() => 1), recordingSlot({}, onCall))(), 1);
    }
  });

  for (const [kind, make] of [
    ['through then', (run: () => unknown) => new Builder(run)],
    ['on their own', (run: () => unknown) => closed(async () => run())],
  ] as const) {
    it(`publish once through catch and finally that go ${kind}`, async () => {
      const slot = recordingSlot({ phase: 'AFTER' });
      const wrapped = wrapFunction(make, slot);
      assert.equal(await wrapped(() => 1).catch(() => 2), 1);
      assert.equal(await wrapped(failing).catch(() => 2), 2);
      let ran = 0;
      assert.equal(await wrapped(() => 1).finally(() => ran++), 1);
      await assert.rejects(wrapped(failing).finally(() => ran++) as Promise<unknown>, fault);
      assert.equal(ran, 2);
      assert.deepEqual(
        slot.seen.map((call) => [call.result, call.error]),
        [
          [1, undefined],
          [null, fault],
          [1, undefined],
          [null, fault],
        ],
      );
    });
  }

  it('that are lazy subclasses of Promise are not started either', async () => {
    let runs = 0;
    class Lazy extends Promise<unknown> {
      static override get [Symbol.species]() {
        return Promise;
      }
      // biome-ignore lint/suspicious/noThenProperty: the very thing
      override then(onValue?: never, onError?: never): never {
        runs++;
        this.start();
        return super.then(onValue, onError) as never;
      }
      start: () => void = () => {};
    }
    let start: (value: number) => void = () => {};
    const lazy = new Lazy((resolve) => {
      start = resolve;
    });
    lazy.start = () => start(9);
    const slot = recordingSlot();
    const result = wrapFunction(() => lazy, slot)();
    assert.equal(result, lazy);
    await turn();
    assert.equal(runs, 0);
    assert.equal(await (result as Promise<unknown>), 9);
    assert.equal(runs, 1);
    assert.equal(slot.calls, 1);
  });

  it('that are frozen still run, with a note instead of an event', async () => {
    const slot = recordingSlot();
    const frozen = Object.freeze(closed(async () => 1));
    assert.equal(await wrapFunction(() => frozen, slot)(), 1);
    assert.equal(slot.calls, 0);
    assert.match(notesAbout(slot.plan.id)[0] ?? '', /frozen/);
  });

  it('whose then is a getter that throws are values', () => {
    const slot = recordingSlot();
    const odd = {
      // biome-ignore lint/suspicious/noThenProperty: a thenable is what this test is about
      get then() {
        throw new Error('do not touch');
      },
    };
    assert.equal(wrapFunction(() => odd, slot)(), odd);
    assert.equal(slot.calls, 1);
  });

  describe('context', () => {
    const key = createContextKey('test');
    const manager = new AsyncLocalStorageContextManager();
    before(() => {
      context.setGlobalContextManager(manager.enable());
    });
    after(() => {
      context.disable();
    });

    it('is the one of the call, wherever it is awaited', async () => {
      const storage = new AsyncLocalStorage<string>();
      let stored: string | undefined;
      let active: unknown;
      const slot = recordingSlot({}, () => {
        stored = storage.getStore();
        active = context.active().getValue(key);
        return undefined;
      });
      const wrapped = wrapFunction(() => new Builder(() => 1), slot);
      const builder = context.with(context.active().setValue(key, 'span'), () =>
        storage.run('request', wrapped),
      );
      await builder;
      assert.equal(stored, 'request');
      assert.equal(active, 'span');
      assert.equal(slot.seen[0]?.context?.getValue(key), 'span');
    });
  });
});
