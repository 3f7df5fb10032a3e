import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import { basename } from 'node:path';

const processKey = Symbol.for('svc');

/**
 * State that must be single per process, although an application can load this package as ESM and as CJS, twice, or in a realm
 * of its own: test runners have a `globalThis` for each file, and Jest a copy of `process`; Node's classes are the same in all.
 * `make` runs once, in whichever copy asks first.
 */
export function shared<T>(name: string, make: () => T): T {
  const holder = AsyncLocalStorage as unknown as Record<symbol, Map<string, unknown> | undefined>;
  holder[processKey] ??= new Map();
  const state = holder[processKey];
  if (!state.has(name)) state.set(name, make());
  return state.get(name) as T;
}

interface Suppression {
  /** Above zero while svc itself runs synchronously: payload expressions, getters, serialization. */
  depth: number;
  readonly storage: AsyncLocalStorage<true>;
}

const suppression = shared<Suppression>('suppression', () => ({
  depth: 0,
  storage: new AsyncLocalStorage(),
}));

/** True while svc's own work runs: functions called by it are not captured. */
export function isOwnWork(): boolean {
  return suppression.depth > 0 || suppression.storage.getStore() === true;
}

/** Runs synchronous own work: what it calls is not captured. Costs a counter. */
export function runOwnWork<T>(work: () => T): T {
  suppression.depth++;
  try {
    return work();
  } finally {
    suppression.depth--;
  }
}

/** Starts asynchronous own work (a send, a query): nothing it calls is captured, now or later. */
export function startOwnWork<T>(work: () => T): T {
  return suppression.storage.run(true, work);
}

interface LoadOnce<T> {
  (): Promise<T>;
  /** What is there or on its way; `undefined` where nobody has asked yet, or the last attempt failed. */
  started(): Promise<T> | undefined;
}

/** What takes long to make, made at its first use and kept. A failure is not kept: who asks next tries again. */
export function loadOnce<T>(load: () => Promise<T>): LoadOnce<T> {
  let loading: Promise<T> | undefined;
  const get = (): Promise<T> => {
    loading ??= load().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
  return Object.assign(get, { started: () => loading });
}

/**
 * Loads, synchronously and when it is needed, what is built into a file of its own: an entry of the CommonJS build in
 * tsdown.config.ts. `from`: the caller's `import.meta.url`. `source`: its path from there; in the package all stand side by side.
 */
export function loadChunk(from: string, source: string): unknown {
  const file = from.endsWith('.ts') ? source : `./${basename(source, '.ts')}.cjs`;
  // An application may capture functions of node:fs, which are called here.
  return runOwnWork(() => createRequire(from)(file));
}
