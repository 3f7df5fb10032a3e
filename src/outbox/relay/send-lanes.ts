import { type Clock, inTime } from '../../ground/clock.ts';
import type { Broker, SendFailure, SendResult } from '../../publish/broker.ts';
import { halvesOf } from '../../publish/cut-batches.ts';
import { notMadeFailure } from '../../publish/fault.ts';
import { brokenPromise } from '../../publish/main/failures.ts';
import { createSendSlots } from '../../publish/memory-limits.ts';
import { maxSendBytes, maxSendRecords, maxSends } from './relay-settings.ts';
import type { Entry, RowEnd } from './row-chains.ts';

/** The rows of one partition, in their order: one send at a time. */
export interface Lane {
  readonly topic: string;
  /** `undefined`: the client chooses, for one record at a time; or the row is none. */
  readonly partition: number | undefined;
  /** Of its topic and partition, for `Parking`. */
  readonly key: string;
}

interface OpenLane extends Lane {
  queue: Entry[];
  /** Of a batch that was too large: to be sent before the queue. */
  pieces: Entry[][];
  isBusy: boolean;
  /** A send took too long, and may yet write its records: until it ends, nothing is sent behind its back. */
  isLate: boolean;
}

export interface SendLanesOptions {
  readonly broker: Pick<Broker, 'send'>;
  readonly sendTimeoutMs: number;
  readonly clock: Clock;
  /** What is to be done with the next row of a lane. `wait`: nothing for now. */
  readonly judge: (entry: Entry, lane: Lane) => 'send' | 'wait' | Exclude<RowEnd, 'sent'>;
  readonly waitsFor: (entry: Entry) => Entry | undefined;
  readonly settle: (entry: Entry, end: RowEnd) => void;
  /** Ends the rows of a send. `split`: they are to be sent in halves. */
  readonly onResult: (
    lane: Lane,
    entries: readonly Entry[],
    result: SendResult,
    tookMs: number,
  ) => Promise<'split' | 'ended'>;
  /** After each send. */
  readonly onSent: () => void;
}

/** Sends rows: several partitions at once, each in its order. */
export interface SendLanes {
  put(entry: Entry, partition: number | undefined): void;
  /** Sends what can be sent. */
  pump(): void;
  /** Lets what is under way end, and starts nothing, until `resume`. */
  hold(): void;
  resume(): void;
  /** Everything that is not in a send stays. */
  drop(): void;
  readonly underWay: number;
  /** Those that were under way at `hold` have ended, as far as they are worth waiting for. */
  readonly isQuiet: boolean;
}

/** A send that takes longer has no company in `hold`: one partition that hangs holds up no others. */
const promptMs = 500;

export function createSendLanes(options: SendLanesOptions): SendLanes {
  const { broker, sendTimeoutMs, clock, judge, waitsFor, settle, onResult, onSent } = options;
  const lanes = new Map<string, OpenLane>();
  const slots = createSendSlots(maxSends);
  /** With the time of their start. */
  const underWay = new Map<Entry, number>();
  const awaited = new Set<Entry>();
  let isHeld = false;

  function laneOf(topic: string, partition: number | undefined): OpenLane {
    const key = `${topic}\n${partition}`;
    let lane = lanes.get(key);
    if (lane === undefined) {
      lane = { topic, partition, key, queue: [], pieces: [], isBusy: false, isLate: false };
      lanes.set(key, lane);
    }
    return lane;
  }

  function pump(): void {
    for (const lane of [...lanes.values()]) pumpLane(lane);
  }

  function pumpLane(lane: OpenLane): void {
    if (lane.isBusy || isHeld) return;
    lane.isBusy = true;
    slots.take(() => start(lane));
  }

  function start(lane: OpenLane): void {
    const entries = isHeld ? [] : take(lane);
    if (entries.length > 0) {
      void send(lane, entries);
      return;
    }
    lane.isBusy = false;
    slots.give();
    if (lane.queue.length + lane.pieces.length === 0 && !lane.isLate) lanes.delete(lane.key);
  }

  /** The next rows for one send. Those that cannot be sent in this pass end here. */
  function take(lane: OpenLane): Entry[] {
    for (;;) {
      const source = lane.pieces[0] ?? lane.queue;
      const { entries, looked } = choose(lane, source);
      source.splice(0, looked);
      if (source.length === 0 && lane.pieces.length > 0) lane.pieces.shift();
      else if (looked === 0 || source === lane.queue) return entries;
      if (entries.length > 0) return entries;
    }
  }

  function choose(lane: OpenLane, source: readonly Entry[]): { entries: Entry[]; looked: number } {
    const entries: Entry[] = [];
    const chosen = new Set<Entry>();
    const most = lane.partition === undefined ? 1 : maxSendRecords;
    let bytes = 0;
    let looked = 0;
    for (; looked < source.length && entries.length < most; looked++) {
      const entry = source[looked] as Entry;
      if (entry.end !== undefined) continue;
      const verdict = lane.isLate ? 'stayed' : judge(entry, lane);
      if (verdict === 'wait') break;
      if (verdict !== 'send') {
        settle(entry, verdict);
        continue;
      }
      const first = waitsFor(entry);
      if (first !== undefined && !chosen.has(first)) break;
      bytes += entry.row.payload.length;
      if (entries.length > 0 && bytes > maxSendBytes) break;
      entries.push(entry);
      chosen.add(entry);
    }
    return { entries, looked };
  }

  async function send(lane: OpenLane, entries: readonly Entry[]): Promise<void> {
    const first = entries[0] as Entry;
    const sinceMs = clock.monotonic();
    underWay.set(first, sinceMs);
    const timestamp = clock.now();
    const records = entries.map(({ row }) => ({
      ...{ key: row.key, value: row.payload, headers: row.headers, timestamp },
    }));
    const { fault } = first.row;
    const sending: Promise<SendResult> =
      fault !== undefined
        ? Promise.resolve({ ok: false, failure: notMadeFailure(fault) })
        : Promise.resolve()
            .then(() => broker.send(lane.topic, lane.partition, records))
            .catch(brokenPromise);
    const late = (): SendResult => {
      lane.isLate = true;
      void sending.then(() => {
        lane.isLate = false;
        pumpLane(lane);
      });
      return { ok: false, failure: tooLate(sendTimeoutMs) };
    };
    const result = await inTime(sending, { limitMs: sendTimeoutMs, keepsAlive: false, late });
    const end = await onResult(lane, entries, result, clock.monotonic() - sinceMs);
    if (end === 'split') lane.pieces.unshift(...halvesOf(entries));
    underWay.delete(first);
    awaited.delete(first);
    lane.isBusy = false;
    slots.give();
    pump();
    onSent();
  }

  return {
    put(entry, partition) {
      laneOf(entry.row.topic, partition).queue.push(entry);
    },
    pump,
    hold() {
      isHeld = true;
      const promptSinceMs = clock.monotonic() - promptMs;
      for (const [entry, sinceMs] of underWay) if (sinceMs > promptSinceMs) awaited.add(entry);
    },
    resume() {
      isHeld = false;
      awaited.clear();
      pump();
    },
    drop() {
      for (const { pieces, queue } of lanes.values())
        for (const entry of [...pieces.flat(), ...queue])
          if (entry.end === undefined) settle(entry, 'stayed');
    },
    get underWay() {
      return underWay.size;
    },
    get isQuiet() {
      return awaited.size === 0;
    },
  };
}

function tooLate(sendTimeoutMs: number): SendFailure {
  return {
    kind: 'unknown_outcome',
    cause: 'TimeoutException',
    message: `not acknowledged within ${sendTimeoutMs} ms (svc.outbox.send-timeout-seconds)`,
  };
}
