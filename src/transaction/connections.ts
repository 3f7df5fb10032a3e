import { Connection } from './connection.ts';
import type { Connections } from './driver.ts';

/**
 * `onUnseenCommit`: a transaction was committed in a way that svc did not see coming, before its event was in it. `onNotFollowed`: the
 * driver of a connection is not what its patch was made for.
 */
export function createConnections(
  onUnseenCommit: () => void,
  onNotFollowed: (error: unknown) => void = () => {},
): Connections {
  /** `undefined`: not followed. */
  const known = new WeakMap<object, Connection | undefined>();

  function drop(handle: object, error: unknown): void {
    known.set(handle, undefined);
    onNotFollowed(error);
  }

  return {
    of(handle, make) {
      if (!known.has(handle)) {
        try {
          known.set(handle, new Connection(make, onUnseenCommit, (error) => drop(handle, error)));
        } catch (error) {
          drop(handle, error);
        }
      }
      return known.get(handle);
    },
    seen: (handle) => known.get(handle),
  };
}
