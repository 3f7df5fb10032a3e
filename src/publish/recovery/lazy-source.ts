import { loadOnce } from '../../ground/lifecycle.ts';
import type { RecoverySource } from '../recovery-source.ts';

/** A source that is loaded when the first look finds something to look at. */
export function lazySource(
  name: string,
  open: () => Promise<RecoverySource>,
): RecoverySource & { hasEvents(): Promise<boolean> } {
  const load = loadOnce(open);
  return {
    name,
    open: async (forRecovery) => (await load()).open(forRecovery),
    count: async () => (await load()).count(),
    async *read(size) {
      yield* (await load()).read(size);
    },
    done: async (events) => (await load()).done(events),
    setAside: async (events) => (await load()).setAside?.(events),
    close: async () => (await load()).close(),
    hasEvents: async () => (await (await load()).hasEvents?.()) ?? false,
  };
}
