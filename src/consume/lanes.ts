import type { ConsumedRecord } from './consumed-event.ts';
import { type Commit, keyOf, type Partition, type RecordSink, type RecordSource } from './source.ts';

/** Records of one partition in memory: beyond them its source is held, and let go again when a quarter is left. */
const mostQueued = 200;
const fewQueued = 50;

/** What works on a record as long as its partition is ours. */
export interface LaneWork {
  /** Aborted when the partition is not ours any more, or the consumer ends. */
  readonly signal: AbortSignal;
  /** The partition waits: for another try, or for a handler that takes long. */
  waits(isWaiting: boolean): void;
}

export interface LanesOptions {
  readonly source: Pick<RecordSource, 'hold' | 'release'>;
  /** Resolves with whether the record is done: what is done is committed. Never rejects. */
  readonly handle: (record: ConsumedRecord, work: LaneWork) => Promise<boolean>;
  /** How many partitions wait. */
  readonly onWaiting: (count: number) => void;
}

export interface Lanes extends RecordSink {
  /** What has been handled since the last call. */
  takeCommits(): readonly Commit[];
  /** Not stored by the broker: they are given again with the next ones. */
  giveBack(commits: readonly Commit[]): void;
  /** No record is begun any more; resolves when none is in hand. */
  end(): Promise<void>;
  /** Partitions with a record in hand. */
  busy(): readonly Partition[];
}

interface Lane extends Partition {
  readonly queue: ConsumedRecord[];
  readonly over: AbortController;
  /** The offset after the last record that was queued. */
  next: bigint;
  isHeld: boolean;
  isWaiting: boolean;
  /** Its last record, and those of the lane before it in this process, are done. */
  work: Promise<void>;
  isWorking: boolean;
  onChange: (() => void)[];
}

/** The records of each partition one after the other, and those of several side by side. */
export function createLanes({ source, handle, onWaiting }: LanesOptions): Lanes {
  const lanes = new Map<string, Lane>();
  const commits = new Map<string, Commit>();
  /** In this process a partition can come back while a record of it is in hand. */
  const left = new Map<string, Promise<void>>();
  const working = new Set<Lane>();
  let waiting = 0;
  let isEnding = false;

  function changed(lane: Lane): void {
    const told = lane.onChange;
    lane.onChange = [];
    for (const tell of told) tell();
  }

  function setWaiting(lane: Lane, isWaiting: boolean): void {
    if (lane.isWaiting === isWaiting) return;
    lane.isWaiting = isWaiting;
    waiting += isWaiting ? 1 : -1;
    onWaiting(waiting);
    changed(lane);
  }

  async function run(lane: Lane): Promise<void> {
    lane.isWorking = true;
    working.add(lane);
    const { signal } = lane.over;
    for (let record = lane.queue.shift(); record !== undefined; record = lane.queue.shift()) {
      const isDone = await handle(record, { signal, waits: (isWaiting) => setWaiting(lane, isWaiting) });
      setWaiting(lane, false);
      if (!isDone) break;
      const { topic, partition, offset, leaderEpoch } = record;
      // Of a partition that is not ours any more nothing is said: who has it now goes on from what it knows.
      if (lanes.get(keyOf(lane)) === lane)
        commits.set(keyOf(lane), { topic, partition, offset: offset + 1n, leaderEpoch });
      if (lane.queue.length < mostQueued) changed(lane);
      if (lane.isHeld && lane.queue.length <= fewQueued && !signal.aborted) {
        lane.isHeld = false;
        source.release(lane);
      }
    }
    lane.isWorking = false;
    working.delete(lane);
  }

  function laneOf(partition: Partition): Lane {
    const key = keyOf(partition);
    const known = lanes.get(key);
    if (known !== undefined) return known;
    const lane: Lane = {
      ...{ topic: partition.topic, partition: partition.partition, queue: [], over: new AbortController() },
      ...{ next: -1n, isHeld: false, isWaiting: false, isWorking: false, onChange: [] },
      work: left.get(key) ?? Promise.resolve(),
    };
    lanes.set(key, lane);
    return lane;
  }

  function leave(lane: Lane): void {
    const key = keyOf(lane);
    lanes.delete(key);
    commits.delete(key);
    lane.queue.length = 0;
    lane.over.abort();
    changed(lane);
    if (lane.isHeld) source.release(lane);
    left.set(key, lane.work);
    void lane.work.then(() => {
      if (left.get(key) === lane.work) left.delete(key);
    });
  }

  function stateOf(partition: Partition): ReturnType<RecordSink['stateOf']> {
    const lane = lanes.get(keyOf(partition));
    if (lane === undefined || lane.queue.length < mostQueued) return 'room';
    return lane.isWaiting ? 'waits' : 'full';
  }

  return {
    stateOf,
    whenNotFull: (partition) =>
      stateOf(partition) === 'full'
        ? new Promise((resolve) => laneOf(partition).onChange.push(resolve))
        : Promise.resolve(),
    push(record) {
      if (isEnding) return;
      const lane = laneOf(record);
      // After a rebalance a client begins with what was committed last.
      if (record.offset < lane.next) return;
      lane.next = record.offset + 1n;
      lane.queue.push(record);
      if (!lane.isHeld && lane.queue.length >= mostQueued) {
        lane.isHeld = true;
        source.hold(lane);
      }
      if (!lane.isWorking) {
        lane.isWorking = true;
        lane.work = lane.work.then(() => run(lane));
      }
    },
    assigned(partitions) {
      const ours = new Set(partitions.map(keyOf));
      for (const lane of [...lanes.values()])
        if (!ours.has(keyOf(lane))) leave(lane);
        // A client that has begun anew knows nothing of it.
        else if (lane.isHeld) source.hold(lane);
    },
    takeCommits() {
      const taken = [...commits.values()];
      commits.clear();
      return taken;
    },
    giveBack(given) {
      for (const commit of given) {
        const key = keyOf(commit);
        if (lanes.has(key) && !commits.has(key)) commits.set(key, commit);
      }
    },
    async end() {
      isEnding = true;
      for (const lane of lanes.values()) {
        lane.queue.length = 0;
        lane.over.abort();
        changed(lane);
      }
      await Promise.all([...[...lanes.values()].map(({ work }) => work), ...left.values()]);
    },
    busy: () => [...working].map(({ topic, partition }) => ({ topic, partition })),
  };
}
