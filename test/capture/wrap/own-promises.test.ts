import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, it } from 'mocha';
import { notesAbout } from '../../../src/capture/report.ts';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { wrapFactory } from '../../../src/capture/wrap/wrap-property.ts';
import { forgetNotes } from '../notes.ts';
import { deferred, recordingSlot, turn } from '../recording-slot.ts';

const program = fileURLToPath(new URL('./promise-program.ts', import.meta.url));

interface Case {
  readonly name: string;
  readonly log: readonly unknown[];
  readonly processEvents: readonly string[];
  readonly events: readonly [calls: number, failed: number];
}

function casesOf(mode: string): Case[] {
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--no-warnings', program, mode], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  assert.equal(status, 0, stderr);
  const lines = stdout.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as Case);
}

/** What JavaScript does not tell: whether anybody else handles a promise that is rejected. Then nobody hears of it. */
const unheard = /^plain, (?!thenable|subclass with a then).*, rejected, (ignored|handled late)$/;
/** Derived where callers wait, as nothing tells it from the function's own but this. */
const derived = /^plain, (native|settled), .*, cached$|^plain, frozen, .*, (cached|looked at)$/;
/** Results with a `then` of their own run when somebody calls it. */
const neverRun =
  /^plain, (thenable|subclass with a then on the instance), .*, (ignored|handled inside|cached)$/;

describe('promises of captured functions', () => {
  for (const mode of ['nobody waits', 'callers wait']) {
    it(`are what they are without svc, where ${mode}`, function () {
      this.timeout(120_000);
      const bare = casesOf('bare');
      const cases = casesOf(mode);
      assert.equal(cases.length, bare.length);
      for (const [index, { name, log, processEvents, events }] of cases.entries()) {
        const expected = bare[index] as Case;
        assert.equal(name, expected.name);
        if (mode !== 'callers wait' || !derived.test(name)) assert.deepEqual(log, expected.log, name);
        assert.deepEqual(processEvents, unheard.test(name) ? [] : expected.processEvents, name);
        const calls = neverRun.test(name) ? 0 : name.endsWith('cached') ? 2 : 1;
        assert.deepEqual(events, [calls, name.includes('rejected') ? calls : 0], name);
      }
    });
  }
});

class Job extends Promise<unknown> {}
const withProperties = (promise: Promise<unknown>) => Object.assign(promise, { cancel: () => {} });
const fault = new Error('event lost');

describe('the caller of a function that is not async', () => {
  const uses: Record<string, (promise: Promise<unknown>) => Promise<unknown>> = {
    await: async (promise) => await promise,
    catch: (promise) => promise.catch((error) => Promise.reject(error)),
    finally: (promise) => promise.finally(() => {}),
  };
  for (const [name, make] of Object.entries({
    native: () => Promise.resolve(1),
    subclass: () => Job.resolve(1),
    cached: (() => {
      const job = Job.resolve(1);
      return () => job;
    })(),
  })) {
    for (const [use, used] of Object.entries(uses)) {
      it(`waits for the event: ${name}, ${use}`, async () => {
        const event = deferred();
        const slot = recordingSlot({}, () => event.promise);
        let value: unknown;
        const call = used(wrapFunction(make, slot)()).then((given) => {
          value = given;
        });
        await turn();
        assert.deepEqual([slot.calls, value], [1, undefined]);
        event.resolve();
        await call;
        assert.equal(value, 1);
      });

      it(`hears of a lost event with failOnError, though nobody may wait: ${name}, ${use}`, async () => {
        const lost = Object.assign(() => Promise.reject(fault), { neverWaits: true });
        await assert.rejects(used(wrapFunction(make, recordingSlot({ failOnError: true }, lost))()), fault);
        await used(wrapFunction(make, recordingSlot({}, lost))());
      });
    }
  }

  it('waits in phase BEFORE as well, with the object that the function returned', async () => {
    const event = deferred();
    const job = Job.resolve(1);
    const wrapped = wrapFunction(
      () => job,
      recordingSlot({ phase: 'BEFORE' }, () => event.promise),
    );
    let isDone = false;
    assert.equal(wrapped(), job);
    const call = wrapped().then(() => {
      isDone = true;
    });
    await turn();
    assert.equal(isDone, false);
    event.resolve();
    await call;
  });

  it('does not wait for a promise that cannot be another and that await asks nothing: there is a note', async () => {
    for (const make of [() => withProperties(Promise.resolve(1)), () => Object.freeze(Job.resolve(1))]) {
      forgetNotes();
      const slot = recordingSlot({ failOnError: true }, () => Promise.reject(fault));
      assert.equal(await wrapFunction(make as () => Promise<unknown>, slot)(), 1);
      assert.equal(slot.calls, 1);
      assert.match(notesAbout(slot.plan.id)[0] ?? '', /its caller does not wait for the event/);
    }
  });

  it('can be handed the same object any number of times', async () => {
    const job = Job.resolve(1);
    let runs = 0;
    const query = {
      // biome-ignore lint/suspicious/noThenProperty: a lazy query
      then: (...handlers: never[]) => Promise.resolve(++runs).then(...handlers),
    } as PromiseLike<number>;
    const slot = recordingSlot({}, () => Promise.resolve());
    const [jobs, queries, factory] = [
      wrapFunction(() => job, slot),
      wrapFunction(() => query, slot),
      wrapFactory(() => query, { find: recordingSlot() }),
    ];
    for (let count = 0; count < 20_000; count++) {
      assert.ok(jobs() === job && queries() === query && factory() === query);
      if (count % 100 === 0) await query;
    }
    assert.deepEqual([await job, await query, slot.calls], [1, runs, 40_000]);
  });
});

describe('promises on their way through other wrappers', () => {
  const fire = () => {
    const promise = Promise.reject(new Error('sold out'));
    promise.catch(() => {});
    return promise;
  };
  const waits = { phase: 'BEFORE' } as const;
  for (const [name, call] of Object.entries({
    'phase BEFORE': () =>
      wrapFunction(
        fire,
        recordingSlot(waits, () => Promise.resolve()),
      )(),
    'a factory of objects': () => wrapFactory(fire, { save: recordingSlot() })(),
    'a factory of functions': () => wrapFactory(fire, { '': recordingSlot() })(),
    'an iterator written by hand': () =>
      wrapFunction(() => ({ next: fire, [Symbol.asyncIterator]: () => {} }), recordingSlot())().next(),
  })) {
    it(`that the application handles are handled: ${name}`, async () => {
      const seen: unknown[] = [];
      const others = process.rawListeners('unhandledRejection') as ((reason: unknown) => void)[];
      process.removeAllListeners('unhandledRejection');
      process.on('unhandledRejection', (reason) => seen.push(reason));
      try {
        call();
        await turn();
        await turn();
      } finally {
        process.removeAllListeners('unhandledRejection');
        for (const other of others) process.on('unhandledRejection', other);
      }
      assert.deepEqual(seen, []);
    });
  }

  it('stay the object they are, of a factory whose objects are changed in place', async () => {
    const slot = recordingSlot();
    const promise = Job.resolve({ save: () => 1 }) as Promise<{ save: () => number }>;
    const create = wrapFactory(() => promise, { save: slot });
    assert.equal(create(), promise);
    assert.equal((await create()).save(), 1);
    assert.equal(slot.calls, 1);
  });
});
