import type { RecoverySource, StoredBatch } from '../../../publish/recovery-source.ts';
import { asideFolder } from '../usage.ts';

/** For a list: behind what waits in a folder, what was set aside in it as too large. */
export function withAside(source: RecoverySource, aside: RecoverySource): RecoverySource {
  let hasAside = false;
  const placed = <T extends { readonly place: string }>(one: T): T => ({
    ...one,
    place: `${asideFolder}/${one.place}`,
  });
  return {
    ...source,
    async open(forRecovery) {
      await source.open(forRecovery);
      hasAside = (await aside.hasEvents?.()) === true;
      if (hasAside) await aside.open(false);
    },
    count: async () => ((await source.count()) ?? 0) + (hasAside ? ((await aside.count()) ?? 0) : 0),
    async *read(size): AsyncGenerator<StoredBatch> {
      yield* source.read(size);
      if (!hasAside) return;
      for await (const { events, unreadable } of aside.read(size))
        yield { events: events.map(placed), unreadable: unreadable.map(placed) };
    },
  };
}
