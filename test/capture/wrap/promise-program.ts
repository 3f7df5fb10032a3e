// Run by own-promises.test.ts in processes of its own: the same program without svc, and with its wrapper. It prints for each case
// what an application can see, a line of JSON each.

import { writeSync } from 'node:fs';

type Fn = () => PromiseLike<unknown>;
type Wrap = (fn: Fn) => { fn: Fn; events: () => [calls: number, failed: number] };

const mode = process.argv[2] ?? 'bare';
const wrap: Wrap = mode === 'bare' ? (fn) => ({ fn, events: () => [0, 0] }) : await wrapper();

async function wrapper(): Promise<Wrap> {
  const { wrapFunction } = await import('../../../src/capture/wrap/wrap.ts');
  const { recordingSlot } = await import('../recording-slot.ts');
  return (fn) => {
    const event = () =>
      mode === 'callers wait' ? new Promise<void>((done) => setImmediate(done)) : undefined;
    const slot = recordingSlot({}, Object.assign(event, { neverWaits: mode === 'nobody waits' }));
    return { fn: wrapFunction(fn, slot), events: () => [slot.calls, slot.failed] };
  };
}

let log: unknown[] = [];
let processEvents: string[] = [];
for (const name of ['unhandledRejection', 'rejectionHandled', 'uncaughtException', 'warning'])
  process.on(name, () => processEvents.push(name));

type Outcome = 'resolved' | 'rejected';
type Constructor = new (
  executor: (resolve: (value: unknown) => void, reject: (error: Error) => void) => void,
) => Promise<unknown>;

function ending(outcome: Outcome, Class: Constructor = Promise): Promise<unknown> {
  return new Class((resolve, reject) =>
    setImmediate(() => (outcome === 'resolved' ? resolve('value') : reject(new Error('sold out')))),
  );
}

class Job extends Promise<unknown> {
  readonly #id = 7;
  constructor(executor: ConstructorParameters<typeof Promise<unknown>>[0]) {
    super(executor);
    log.push('constructs');
  }
  cancel() {
    return `cancelled ${this.#id}`;
  }
}

class Plain extends Job {
  static override get [Symbol.species]() {
    return Promise;
  }
}

const hidden = { value: 'hidden', enumerable: false };
const mark = Symbol('mark');

function callsThen<P extends PromiseLike<unknown>>(promise: P): P {
  const { then } = promise;
  return Object.defineProperty(promise, 'then', {
    configurable: true,
    writable: true,
    value(...handlers: Parameters<typeof then>) {
      log.push('calls then');
      return Reflect.apply(then, promise, handlers);
    },
  });
}

const kinds: Record<string, (outcome: Outcome) => PromiseLike<unknown>> = {
  native: (outcome) => ending(outcome),
  settled: (outcome) =>
    outcome === 'resolved' ? Promise.resolve('value') : Promise.reject(new Error('sold out')),
  subclass: (outcome) => ending(outcome, Job as Constructor),
  'subclass with species': (outcome) => ending(outcome, Plain as Constructor),
  'subclass with a then on the instance': (outcome) => callsThen(ending(outcome, Job as Constructor)),
  'with properties': (outcome) =>
    Object.defineProperties(Object.assign(ending(outcome), { cancel: () => 'cancelled', [mark]: 1 }), {
      hidden,
    }),
  'with a then on the instance': (outcome) => callsThen(ending(outcome)),
  'with another constructor on the instance': (outcome) =>
    Object.assign(ending(outcome), { constructor: Job }),
  thenable: (outcome) => {
    const promise = () => ending(outcome);
    // biome-ignore lint/suspicious/noThenProperty: a lazy query
    return { then: (...handlers: never[]) => promise().then(...handlers) } as PromiseLike<unknown>;
  },
  frozen: (outcome) => Object.freeze(ending(outcome)),
  'frozen subclass': (outcome) => Object.freeze(ending(outcome, Plain as Constructor)),
};

const uses: Record<string, (fn: Fn) => unknown> = {
  ignored: (fn) => void fn(),
  awaited: async (fn) => {
    try {
      log.push(await fn());
    } catch (error) {
      log.push(String(error));
    }
  },
  chained: (fn) =>
    (fn() as Promise<unknown>).then(
      (value) => log.push(value),
      (error) => log.push(String(error)),
    ),
  'in a list': async (fn) => log.push((await Promise.allSettled([fn()])).map(({ status }) => status)),
  'handled late': async (fn) => {
    const promise = fn();
    await turns();
    promise.then(undefined, (error) => log.push(String(error)));
  },
  'looked at': (fn) => {
    const promise = fn() as Job & { hidden?: string; [mark]?: number };
    promise.then(undefined, () => {});
    // Hidden ones of svc, where a result may be lazy or its caller has to wait.
    const keys = Reflect.ownKeys(promise).filter(
      (key) => !['then', 'catch', 'finally'].includes(String(key)),
    );
    log.push(promise.constructor.name, keys.map(String), promise.cancel?.(), promise.hidden, promise[mark]);
    log.push(Object.isFrozen(promise), Object.prototype.toString.call(promise));
  },
};

async function turns(): Promise<void> {
  for (let turn = 0; turn < 6; turn++) await new Promise((resolve) => setImmediate(resolve));
}

async function run(name: string, fn: Fn, use: (fn: Fn) => unknown): Promise<void> {
  log = [];
  processEvents = [];
  const wrapped = wrap(fn);
  await use(wrapped.fn);
  await turns();
  writeSync(1, `${JSON.stringify({ name, log, processEvents, events: wrapped.events() })}\n`);
}

for (const outcome of ['resolved', 'rejected'] as const) {
  for (const [kind, make] of Object.entries(kinds)) {
    for (const [useName, use] of Object.entries(uses)) {
      const name = `${kind}, ${outcome}, ${useName}`;
      await run(`plain, ${name}`, () => make(outcome), use);
      await run(`async, ${name}`, async () => make(outcome), use);
    }
    const handled = () => {
      const promise = make(outcome);
      promise.then(undefined, (error) => log.push(`handled inside: ${error}`));
      return promise;
    };
    await run(`plain, ${kind}, ${outcome}, handled inside`, handled, uses.ignored as never);
    const cached = make(outcome);
    cached.then(undefined, () => {});
    const twice = (fn: Fn) => log.push(fn() === cached, fn() === cached);
    await run(`plain, ${kind}, ${outcome}, cached`, () => cached, twice);
  }
}
