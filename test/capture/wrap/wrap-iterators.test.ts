import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Readable } from 'node:stream';
import { context, createContextKey, ROOT_CONTEXT } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { describe, it } from 'mocha';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { deferred, recordingSlot, turn } from '../recording-slot.ts';

const fault = new Error('broken pipe');

async function* rows(count: number): AsyncGenerator<number, string | undefined> {
  for (let row = 1; row <= count; row++) yield row;
  return count > 2 ? 'many' : undefined;
}

function* numbers(): Generator<number, string> {
  yield 1;
  yield 2;
  return 'end';
}

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of source) all.push(each);
  return all;
}

describe('wrapFunction: async iterators', () => {
  it('publish at their end, with the return value or null', async () => {
    const slot = recordingSlot();
    const wrapped = wrapFunction(rows, slot);
    const iterator = wrapped(2);
    assert.deepEqual(await iterator.next(), { value: 1, done: false });
    assert.equal(slot.calls, 0);
    assert.deepEqual(await collect(iterator), [2]);
    assert.equal(slot.calls, 1);
    assert.equal(slot.seen[0]?.result, null);
    assert.deepEqual(slot.seen[0]?.args, [2]);
    assert.equal(slot.seen[0]?.canWait, true);
    await iterator.next();
    assert.equal(slot.calls, 1, 'once');
    assert.deepEqual(await collect(wrapped(3)), [1, 2, 3]);
    assert.equal(slot.seen[1]?.result, 'many');
  });

  it('stay what they are', () => {
    const wrapped = wrapFunction(rows, recordingSlot());
    const iterator = wrapped(1);
    assert.ok(iterator instanceof wrapped);
    assert.ok(iterator instanceof rows);
    assert.equal(Object.prototype.toString.call(iterator), '[object AsyncGenerator]');
    assert.equal(iterator[Symbol.asyncIterator](), iterator);
    assert.deepEqual(Object.keys(iterator), []);
  });

  it('end with a break, and with a throw of the consumer', async () => {
    const slot = recordingSlot();
    const wrapped = wrapFunction(rows, slot);
    for await (const _ of wrapped(5)) break;
    assert.equal(slot.calls, 1);
    assert.equal(slot.seen[0]?.result, null);
    await assert.rejects(async () => {
      for await (const _ of wrapped(5)) throw fault;
    }, fault);
    assert.equal(slot.calls, 2);
  });

  it('do not end where finally goes on yielding', async () => {
    const slot = recordingSlot();
    const iterator = wrapFunction(async function* (): AsyncGenerator<number, void> {
      try {
        yield 1;
      } finally {
        yield 2;
      }
    }, slot)();
    await iterator.next();
    assert.deepEqual(await iterator.return(), { value: 2, done: false });
    assert.equal(slot.calls, 0);
    await iterator.next();
    assert.equal(slot.calls, 1);
  });

  it('that throw: phase AFTER tells once, AFTER_RETURNING never', async () => {
    const broken = async function* () {
      yield 1;
      throw fault;
    };
    const after = recordingSlot({ phase: 'AFTER' });
    await assert.rejects(collect(wrapFunction(broken, after)()), fault);
    assert.equal(after.calls, 1);
    assert.equal(after.seen[0]?.error, fault);
    assert.equal(after.seen[0]?.result, null);
    const returning = recordingSlot();
    const iterator = wrapFunction(broken, returning)();
    await assert.rejects(collect(iterator), fault);
    await iterator.next();
    assert.deepEqual([returning.calls, returning.failed, returning.seen.length], [1, 1, 0]);
  });

  it('wait at their end only, and fail there with failOnError', async () => {
    const event = deferred();
    const iterator = wrapFunction(
      rows,
      recordingSlot({}, () => event.promise),
    )(1);
    await iterator.next();
    let isDone = false;
    const end = iterator.next().then(() => {
      isDone = true;
    });
    await turn();
    assert.equal(isDone, false);
    event.resolve();
    await end;
    const strict = wrapFunction(
      rows,
      recordingSlot({ failOnError: true }, () => Promise.reject(fault)),
    );
    await assert.rejects(collect(strict(1)), fault);
    const lenient = wrapFunction(
      rows,
      recordingSlot({}, () => Promise.reject(fault)),
    );
    assert.deepEqual(await collect(lenient(1)), [1]);
  });

  it('written by hand are watched as well', async () => {
    const slot = recordingSlot();
    const source = {
      left: 2,
      async next() {
        return this.left-- > 0 ? { value: this.left, done: false } : { value: undefined, done: true };
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
    assert.deepEqual(
      await collect(wrapFunction(() => source as AsyncIterableIterator<number>, slot)()),
      [1, 0],
    );
    assert.equal(slot.calls, 1);
  });

  it('keep the asynchronous context of the call', async () => {
    const storage = new AsyncLocalStorage<string>();
    let stored: string | undefined;
    const slot = recordingSlot({}, () => {
      stored = storage.getStore();
      return undefined;
    });
    const wrapped = wrapFunction(rows, slot);
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    try {
      const name = createContextKey('name');
      const active = ROOT_CONTEXT.setValue(name, 'request');
      const iterator = context.with(active, () => storage.run('request', () => wrapped(1)));
      await storage.run('consumer', () => collect(iterator));
      assert.equal(stored, 'request');
      assert.equal(slot.seen[0]?.context?.getValue(name), 'request');
    } finally {
      context.disable();
    }
  });

  it('are not streams, which end on their own terms: those are values', () => {
    const slot = recordingSlot();
    const stream = Readable.from([1]);
    assert.equal(wrapFunction(() => stream, slot)(), stream);
    assert.equal(slot.calls, 1);
    assert.equal(slot.seen[0]?.canWait, false);
  });
});

describe('wrapFunction: generators', () => {
  it('publish at their end and make nobody wait', () => {
    const slot = recordingSlot({}, () => Promise.reject(fault));
    assert.deepEqual([...wrapFunction(numbers, slot)()], [1, 2]);
    assert.equal(slot.calls, 1);
    assert.equal(slot.seen[0]?.result, 'end');
    assert.equal(slot.seen[0]?.canWait, false);
  });

  it('end with a break', () => {
    const slot = recordingSlot();
    for (const _ of wrapFunction(numbers, slot)()) break;
    assert.equal(slot.calls, 1);
    assert.equal(slot.seen[0]?.result, null);
  });

  it('delegate', () => {
    const slot = recordingSlot();
    const wrapped = wrapFunction(numbers, slot);
    const outer = function* (): Generator<number, string> {
      return yield* wrapped();
    };
    assert.deepEqual([...outer()], [1, 2]);
    assert.equal(slot.seen[0]?.result, 'end');
  });

  it('that throw: phase AFTER tells, AFTER_RETURNING does not', () => {
    const broken = function* () {
      yield 1;
      throw fault;
    };
    const after = recordingSlot({ phase: 'AFTER' });
    assert.throws(() => [...wrapFunction(broken, after)()], fault);
    assert.equal(after.seen[0]?.error, fault);
    const returning = recordingSlot();
    assert.throws(() => [...wrapFunction(broken, returning)()], fault);
    assert.deepEqual([returning.calls, returning.failed, returning.seen.length], [1, 1, 0]);
  });

  it('throw what onCall threw with failOnError', () => {
    const strict = recordingSlot({ failOnError: true }, () => {
      throw fault;
    });
    assert.throws(() => [...wrapFunction(numbers, strict)()], fault);
  });

  it('are not the iterators of collections: those are values', () => {
    for (const make of [() => [1].values(), () => new Map([[1, 2]]).entries(), () => new Set([1]).values()]) {
      const slot = recordingSlot();
      const iterator = wrapFunction(make as () => Iterator<unknown>, slot)();
      assert.equal(slot.calls, 1);
      assert.equal(slot.seen[0]?.result, iterator);
    }
  });
});
