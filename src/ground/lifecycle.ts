import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import { basename } from 'node:path';

const processKey = Symbol.for('svc');

/**
 * State that is single per process, although an application may load this package as ESM and as CJS, twice, or in another
 * realm. Test runners have a `globalThis` per file, and Jest a copy of `process`; Node's classes are shared. `make`
 * runs once, in the copy that asks first.
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

/** True while svc's own work runs: functions that it calls are not captured. */
export function isOwnWork(): boolean {
  return suppression.depth > 0 || suppression.storage.getStore() === true;
}

/** Runs synchronous own work, whose calls are not captured. Costs a counter. */
export function runOwnWork<T>(work: () => T): T {
  suppression.depth++;
  try {
    return work();
  } finally {
    suppression.depth--;
  }
}

/** Starts asynchronous own work (a send, a query), whose calls are not captured, now or later. */
export function startOwnWork<T>(work: () => T): T {
  return suppression.storage.run(true, work);
}

interface LoadOnce<T> {
  (): Promise<T>;
  /** The result or the attempt in progress; `undefined` before the first call and after a failure. */
  started(): Promise<T> | undefined;
}

/** A lazily created value. Failures are not kept: the next call tries again. */
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
 * Loads a chunk synchronously on demand: an entry of the CommonJS build in tsdown.config.ts. `from`: the caller's
 * `import.meta.url`. `source`: the path relative to it; in the package all chunks are in one folder.
 */
export function loadChunk(from: string, source: string): unknown {
  const file = from.endsWith('.ts') ? source : `./${basename(source, '.ts')}.cjs`;
  // An application may capture functions of node:fs, which this calls.
  return runOwnWork(() => createRequire(from)(file));
}
