import type { RecoverySource } from '../../../publish/recovery-source.ts';
import { unusable } from '../backup-failure.ts';

/** Whatever the file system refuses becomes one line, as the port promises. */
export function withOneLineErrors(source: RecoverySource, directory: string): RecoverySource {
  const { setAside } = source;
  const orLine = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw unusable(error, directory);
    }
  };
  return {
    ...source,
    open: (forRecovery) => orLine(() => source.open(forRecovery)),
    count: () => orLine(() => source.count()),
    async *read(size) {
      const batches = source.read(size)[Symbol.asyncIterator]();
      try {
        for (;;) {
          const next = await orLine(() => batches.next());
          if (next.done) return;
          yield next.value;
        }
      } finally {
        await batches.return?.();
      }
    },
    ...(setAside !== undefined && { setAside: (events) => orLine(() => setAside(events)) }),
    done: (events) => orLine(() => source.done(events)),
  };
}
