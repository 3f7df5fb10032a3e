import { orderOf } from '../../ground/event-id.ts';
import type { PartitionBacklog } from './partition-backlogs.ts';
import { backOff, endBackoff, type HeldUp } from './partition-backlogs.ts';

/** An event as far as its backlog is concerned. */
export interface Placed {
  readonly eventId: string;
  readonly topic: string | undefined;
  readonly key: string | null;
}

/** One look at all that is in the own backup, in the order of the events. */
export interface Pass {
  /** What may be sent has no lower id. */
  readonly from: bigint;
  /** Whether it may be sent now: nothing that belongs before it is elsewhere. */
  accepts(event: Placed): boolean;
  /** Was not sent, and stays: nothing of its partition is sent after it. `isRefused`: its topic has said so. */
  failed(event: Placed, isRefused: boolean): void;
  /** Nothing more can be sent: the rest need not be read. */
  isOver(): boolean;
  /** `isComplete`: all that was there when the pass began was looked at. @param readingMs what that cost, where nothing was sent */
  end(isComplete: boolean, readingMs: number): void;
}

export interface PassParts {
  readonly from: bigint;
  /** Those that it is about, with the last event of each that it may send. */
  readonly ready: ReadonlyMap<PartitionBacklog, bigint>;
  /** Something may be there that belongs to none. */
  readonly isForOrphans: boolean;
  readonly beganMs: number;
  readonly monotonic: () => number;
  readonly backlogOf: (event: Placed) => PartitionBacklog | undefined;
  readonly acceptsOrphan: (event: Placed) => boolean;
  readonly open: (backlog: PartitionBacklog) => void;
  readonly fallBehind: (backlog: PartitionBacklog) => void;
}

export function createPass(parts: PassParts): Pass {
  const { ready, backlogOf } = parts;
  const failed = new Map<PartitionBacklog, HeldUp>();
  const unfinished = new Set<PartitionBacklog>();

  function mayBeSent(backlog: PartitionBacklog, id: bigint): boolean {
    // Not past one that has left since the pass began.
    return id <= (ready.get(backlog) as bigint) && id <= backlog.nextFirst;
  }

  return {
    from: parts.from,
    isOver: () => !parts.isForOrphans && failed.size === ready.size,
    accepts(event) {
      const backlog = backlogOf(event);
      if (backlog === undefined) return parts.acceptsOrphan(event);
      if (!ready.has(backlog) || failed.has(backlog)) return false;
      const id = orderOf(event.eventId);
      if (mayBeSent(backlog, id)) return true;
      unfinished.add(backlog);
      if (id < backlog.nextFirst) backlog.nextFirst = id;
      return false;
    },
    failed(event, isRefused) {
      const backlog = backlogOf(event);
      if (backlog !== undefined && !failed.has(backlog))
        failed.set(backlog, { id: orderOf(event.eventId), isRefused });
    },
    end(isComplete, readingMs) {
      for (const backlog of ready.keys()) {
        const heldUp = failed.get(backlog);
        const isThrough = isComplete && heldUp === undefined;
        if (isThrough) {
          backlog.sinceMs = parts.beganMs;
          backlog.first = backlog.nextFirst;
          endBackoff(backlog);
        } else if (isComplete && heldUp) backOff(backlog, heldUp, parts.monotonic(), readingMs);
        if (!backlog.isEnding) continue;
        if (isThrough && !unfinished.has(backlog) && backlog.pending === 0) parts.open(backlog);
        else parts.fallBehind(backlog);
      }
    },
  };
}
