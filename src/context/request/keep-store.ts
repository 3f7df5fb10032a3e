import type { EventEmitter } from 'node:events';
import { type ContextStore, contextStorage } from '../context-store.ts';

/**
 * Makes listeners of this emitter run inside its request's store. Node 24 and later emit `data`, `end` and others of a
 * request outside of it. Only our own store is entered, so that nobody else's context changes; a store nested in the
 * same request (`runWithContext`) is left alone. `beforeEvent` is called before the listeners of each event.
 */
export function keepStore(
  emitter: EventEmitter,
  store: ContextStore,
  beforeEvent?: (name: string | symbol) => void,
): void {
  const storage = contextStorage();
  const emit = emitter.emit;
  const emitInStore = function (this: EventEmitter, ...args: Parameters<EventEmitter['emit']>): boolean {
    beforeEvent?.(args[0]);
    if (storage.getStore()?.scope === store.scope) return emit.apply(this, args);
    return storage.run(store, () => emit.apply(this, args));
  };
  // Not enumerable: applications print, copy and compare requests.
  Object.defineProperty(emitter, 'emit', {
    value: emitInStore,
    writable: true,
    configurable: true,
    enumerable: false,
  });
}
