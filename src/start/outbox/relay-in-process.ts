import { systemClock, within } from '../../ground/clock.ts';
import type { Relay, RelayState } from '../../outbox/relay/relay.ts';

/**
 * The relay in the process of an application, of which nobody knows when it ends: it is finished whenever it may be the end, and
 * begins anew where it was not.
 */
export interface RelayInProcess {
  /** A row of this process was committed. */
  wake(): void;
  /** Whether it is the one that sends the rows of this shard. */
  holds(shard: number): boolean;
  state(): RelayState | undefined;
  resetBreaker(): void;
  /** Whether there is something to finish: shards that others wait for, or rows of this process that may not be sent. */
  isUnfinished(): boolean;
  /** Sends what this process has committed and gives the shards back. Returns whether it was all of it. */
  finish(deadlineMs: number): Promise<boolean>;
  /** For good. */
  close(deadlineMs: number): Promise<void>;
}

/** A process that goes on has no relay for so long, unless it commits a row. */
const restartMs = 1_000;
/** What a relay may take that has nothing to send: giving shards back is not worth more. */
const idleFinishMs = 500;

export function runRelay(open: () => Promise<Relay>, onFailed: (error: Error) => void): RelayInProcess {
  let relay: Relay | undefined;
  let opening: Promise<void> | undefined;
  let finishing: Promise<boolean> | undefined;
  let restart: NodeJS.Timeout | undefined;
  let hasStored = false;
  let isClosed = false;

  async function start(): Promise<void> {
    try {
      const opened = await open();
      if (isClosed) return;
      relay = opened;
      relay.start();
    } catch (error) {
      onFailed(error as Error);
    } finally {
      opening = undefined;
    }
  }

  function ensure(): void {
    clearTimeout(restart);
    if (!isClosed && relay === undefined && finishing === undefined) opening ??= start();
  }

  async function finish(deadlineMs: number): Promise<boolean> {
    const endMs = systemClock.monotonic() + deadlineMs;
    const isOwn = hasStored;
    if (isOwn && opening !== undefined) await within(deadlineMs, opening);
    if (relay === undefined) return !isOwn;
    hasStored = false;
    const leftMs = Math.max(0, endMs - systemClock.monotonic());
    const { published, failed } = relay.state().processed;
    const isIdle = !isOwn && published + failed === 0;
    const isDone = isOwn
      ? await relay.finish(leftMs)
      : await relay.stop(isIdle ? Math.min(leftMs, idleFinishMs) : leftMs);
    relay = undefined;
    return isDone;
  }

  ensure();
  return {
    wake() {
      hasStored = true;
      if (finishing === undefined) relay?.wake();
      ensure();
    },
    holds: (shard) => relay?.holds(shard) ?? false,
    state: () => relay?.state(),
    resetBreaker: () => relay?.resetBreaker(),
    isUnfinished: () => !isClosed && (relay !== undefined || hasStored),
    finish(deadlineMs) {
      finishing ??= finish(deadlineMs).finally(() => {
        finishing = undefined;
        // The process may go on after all. If not, neither of these holds it.
        if (hasStored) ensure();
        else if (!isClosed && relay === undefined) restart = setTimeout(ensure, restartMs).unref();
      });
      return finishing;
    },
    async close(deadlineMs) {
      isClosed = true;
      clearTimeout(restart);
      await finishing;
      await opening;
      await relay?.stop(deadlineMs);
    },
  };
}
