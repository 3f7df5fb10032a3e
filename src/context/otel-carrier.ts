import type { Context, ContextManager } from '@opentelemetry/api';
import { shared } from '../ground/lifecycle.ts';
import { registeredContextManager } from '../observe/otel-api.ts';
import { type ContextStore, contextStorage } from './context-store.ts';

// Whatever carries the trace carries the user: svc's store is an entry of OpenTelemetry's context as well. Instrumentations bind
// callbacks of drivers and the like to that context, where an AsyncLocalStorage of its own is that of whoever opened the connection.

/** `attach` is there from 1.10 of the API on. */
type Manager = ContextManager & { attach?(this: unknown, context: Context, ...rest: unknown[]): unknown };

const key = Symbol.for('svc context');
/** The entry of a context that was made where svc had no store. */
const nobody = Symbol.for('svc context: nobody');
type Entry = ContextStore | typeof nobody;

const carrier = shared('otel-carrier', () => ({
  isOn: false,
  /** The one looked at last. */
  known: undefined as object | undefined,
  patched: new WeakSet<object>(),
}));

/** From now on, until the returned function is called. Nothing is done before an application registers a context manager. */
export function carryInOtel(): () => void {
  carrier.isOn = true;
  followContextManager();
  return () => {
    carrier.isOn = false;
  };
}

/** OpenTelemetry tells nobody of a context manager that is registered: asked wherever a store is entered. */
export function followContextManager(): void {
  const manager = registeredContextManager();
  if (manager === carrier.known || !carrier.isOn) return;
  carrier.known = manager;
  if (manager === undefined || carrier.patched.has(manager)) return;
  carrier.patched.add(manager);
  patch(manager as Manager);
}

function patch(manager: Manager): void {
  const { with: runWith, bind, attach } = manager;
  const storage = contextStorage();

  replace(manager, 'with', (context: Context, ...rest: unknown[]) => {
    const found = read(context, manager);
    if (!found.isElsewhere) return Reflect.apply(runWith, manager, [found.context, ...rest]);
    return storage.run(found.store as ContextStore, () =>
      Reflect.apply(runWith, manager, [context, ...rest]),
    );
  });
  replace(manager, 'bind', (context: Context, ...rest: unknown[]) =>
    Reflect.apply(bind, manager, [read(context, manager).context, ...rest]),
  );
  if (typeof attach === 'function')
    replace(manager, 'attach', (context: Context, ...rest: unknown[]) => {
      const found = read(context, manager);
      const token = Reflect.apply(attach, manager, [found.context, ...rest]);
      return found.isElsewhere ? enterUntilDisposed(found.store, token) : token;
    });
}

/** The token of `attach` takes the context back. */
function enterUntilDisposed(store: ContextStore | undefined, token: unknown): unknown {
  const { dispose } = (token ?? {}) as { dispose?: () => void };
  if (typeof dispose !== 'function') return token;
  const storage = contextStorage();
  const before = storage.getStore();
  storage.enterWith(store as ContextStore);
  (token as { dispose: () => void }).dispose = () => {
    if (storage.getStore() === store) storage.enterWith(before as ContextStore);
    dispose.call(token);
  };
  return token;
}

interface Found {
  /** What to go on with: it has an entry. */
  readonly context: Context;
  /** The context belongs to another execution than that of the caller: its store counts. */
  readonly isElsewhere: boolean;
  readonly store: ContextStore | undefined;
}

/**
 * A context that was derived from the active one belongs to its caller, whose store may be newer than the entry. One with another
 * entry than the active one comes from elsewhere.
 */
function read(context: Context, manager: Manager): Found {
  const store = contextStorage().getStore();
  const mine = { context, isElsewhere: false, store };
  if (!carrier.isOn) return mine;
  try {
    const here: Entry = store ?? nobody;
    const entry = context.getValue(key) as Entry | undefined;
    if (entry === here) return mine;
    if (entry === undefined || entry === manager.active().getValue(key))
      return { ...mine, context: context.setValue(key, here) };
    return { context, isElsewhere: true, store: entry === nobody ? undefined : entry };
  } catch {
    // Of a manager that is none, or a context that is none: what becomes of them is the application's.
    return mine;
  }
}

function replace(manager: Manager, name: keyof Manager, made: (...args: never[]) => unknown): void {
  try {
    // Not enumerable, as the method that it stands before.
    Object.defineProperty(manager, name, {
      ...{ value: made, writable: true, configurable: true, enumerable: false },
    });
  } catch {
    // A frozen one: svc's own store counts then.
  }
}
