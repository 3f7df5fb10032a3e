import { orderOf } from '../../ground/event-id.ts';
import type { Lane } from './lanes.ts';
import { endPause, type HeldUp, leaveAlone } from './lanes.ts';

/** An event as far as its lane is concerned. */
export interface Placed {
  readonly eventId: string;
  readonly topic: string | undefined;
  readonly key: string | null;
}

/** One look at all that is in the own backup, in the order of the events. */
export interface Round {
  /** What may be sent has no lower id. */
  readonly from: bigint;
  /** Whether it may be sent now: nothing that belongs before it is elsewhere. */
  accepts(event: Placed): boolean;
  /** Was not sent, and stays: nothing of its partition is sent after it. `isRefused`: its topic has said so. */
  failed(event: Placed, isRefused: boolean): void;
  /** Nothing more can be sent: the rest need not be read. */
  isOver(): boolean;
  /** `isComplete`: all that was there when the round began was looked at. @param readingMs what that cost, where nothing was sent */
  end(isComplete: boolean, readingMs: number): void;
}

export interface RoundParts {
  readonly from: bigint;
  /** Those that it is about, with the last event of each. */
  readonly ready: ReadonlyMap<Lane, bigint>;
  /** Something may be there that belongs to none. */
  readonly isForStrays: boolean;
  readonly beganMs: number;
  readonly monotonic: () => number;
  readonly laneOf: (event: Placed) => Lane | undefined;
  readonly acceptsStray: (event: Placed) => boolean;
  readonly open: (lane: Lane) => void;
  readonly fallBehind: (lane: Lane) => void;
}

export function createRound(parts: RoundParts): Round {
  const { ready, laneOf } = parts;
  const failed = new Map<Lane, HeldUp>();
  const unfinished = new Set<Lane>();

  function mayBeSent(lane: Lane, id: bigint): boolean {
    const [waiting] = lane.held;
    return id <= (ready.get(lane) as bigint) && !(waiting && orderOf(waiting.event.eventId) < id);
  }

  return {
    from: parts.from,
    isOver: () => !parts.isForStrays && failed.size === ready.size,
    accepts(event) {
      const lane = laneOf(event);
      if (lane === undefined) return parts.acceptsStray(event);
      if (!ready.has(lane) || failed.has(lane)) return false;
      const id = orderOf(event.eventId);
      if (mayBeSent(lane, id)) return true;
      unfinished.add(lane);
      if (id < lane.nextFirst) lane.nextFirst = id;
      return false;
    },
    failed(event, isRefused) {
      const lane = laneOf(event);
      if (lane !== undefined && !failed.has(lane))
        failed.set(lane, { id: orderOf(event.eventId), isRefused });
    },
    end(isComplete, readingMs) {
      for (const lane of ready.keys()) {
        const heldUp = failed.get(lane);
        const isThrough = isComplete && heldUp === undefined;
        if (isThrough) {
          lane.sinceMs = parts.beganMs;
          lane.first = lane.nextFirst;
          endPause(lane);
        } else if (isComplete && heldUp) leaveAlone(lane, heldUp, parts.monotonic(), readingMs);
        if (!lane.isEnding) continue;
        if (isThrough && !unfinished.has(lane) && lane.undecided === 0) parts.open(lane);
        else parts.fallBehind(lane);
      }
    },
  };
}
