import type { ConsumedRecord } from './consumed-event.ts';
import { type Commit, keyOf, type Partition, type RecordSink, type RecordSource } from './source.ts';

/** Records of one partition in memory: beyond them its source is held, and let go again when a quarter is left. */
const mostQueued = 200;
const fewQueued = 50;

/** What works on a record as long as its partition is ours. */
export interface PartitionWork {
  /** Aborted when the partition is not ours any more, or the consumer ends. */
  readonly signal: AbortSignal;
  /** The partition waits: for another try, or for a handler that takes long. */
  waits(isWaiting: boolean): void;
}

export interface PartitionQueuesOptions {
  readonly source: Pick<RecordSource, 'hold' | 'release'>;
  /** Resolves with whether the record is done: what is done is committed. Never rejects. */
  readonly handle: (record: ConsumedRecord, work: PartitionWork) => Promise<boolean>;
  /** How many partitions wait. */
  readonly onWaiting: (count: number) => void;
}

export interface PartitionQueues extends RecordSink {
  /** What has been handled since the last call. */
  takeCommits(): readonly Commit[];
  /** Not stored by the broker: they are given again with the next ones. */
  giveBack(commits: readonly Commit[]): void;
  /** No record is begun any more; resolves when none is in hand. */
  end(): Promise<void>;
  /** Partitions with a record in hand. */
  busy(): readonly Partition[];
}

interface PartitionQueue extends Partition {
  readonly records: ConsumedRecord[];
  readonly over: AbortController;
  /** The offset after the last record that was queued. */
  next: bigint;
  isHeld: boolean;
  isWaiting: boolean;
  /** Its last record, and those of the one before it in this process, are done. */
  work: Promise<void>;
  isWorking: boolean;
  onChange: (() => void)[];
}

/** The records of each partition one after the other, and those of several side by side. */
export function createPartitionQueues({
  source,
  handle,
  onWaiting,
}: PartitionQueuesOptions): PartitionQueues {
  const queues = new Map<string, PartitionQueue>();
  let ours: ReadonlySet<string> = new Set();
  const commits = new Map<string, Commit>();
  /** In this process a partition can come back while a record of it is in hand. */
  const left = new Map<string, Promise<void>>();
  const working = new Set<PartitionQueue>();
  let waiting = 0;
  let isEnding = false;

  function changed(queue: PartitionQueue): void {
    const told = queue.onChange;
    queue.onChange = [];
    for (const tell of told) tell();
  }

  function setWaiting(queue: PartitionQueue, isWaiting: boolean): void {
    if (queue.isWaiting === isWaiting) return;
    queue.isWaiting = isWaiting;
    waiting += isWaiting ? 1 : -1;
    onWaiting(waiting);
    changed(queue);
  }

  async function run(queue: PartitionQueue): Promise<void> {
    queue.isWorking = true;
    working.add(queue);
    const { signal } = queue.over;
    for (let record = queue.records.shift(); record !== undefined; record = queue.records.shift()) {
      const isDone = await handle(record, { signal, waits: (isWaiting) => setWaiting(queue, isWaiting) });
      setWaiting(queue, false);
      if (!isDone) break;
      const { topic, partition, offset, leaderEpoch } = record;
      // Of a partition that is not ours any more nothing is said: who has it now goes on from what it knows.
      if (queues.get(keyOf(queue)) === queue)
        commits.set(keyOf(queue), { topic, partition, offset: offset + 1n, leaderEpoch });
      if (queue.records.length < mostQueued) changed(queue);
      if (queue.isHeld && queue.records.length <= fewQueued && !signal.aborted) {
        queue.isHeld = false;
        source.release(queue);
      }
    }
    queue.isWorking = false;
    working.delete(queue);
  }

  function queueOf(partition: Partition): PartitionQueue {
    const key = keyOf(partition);
    const known = queues.get(key);
    if (known !== undefined) return known;
    const queue: PartitionQueue = {
      ...{ topic: partition.topic, partition: partition.partition, records: [], over: new AbortController() },
      ...{ next: -1n, isHeld: false, isWaiting: false, isWorking: false, onChange: [] },
      work: left.get(key) ?? Promise.resolve(),
    };
    queues.set(key, queue);
    return queue;
  }

  function leave(queue: PartitionQueue): void {
    const key = keyOf(queue);
    queues.delete(key);
    commits.delete(key);
    queue.records.length = 0;
    queue.over.abort();
    changed(queue);
    if (queue.isHeld) source.release(queue);
    left.set(key, queue.work);
    void queue.work.then(() => {
      if (left.get(key) === queue.work) left.delete(key);
    });
  }

  function stateOf(partition: Partition): ReturnType<RecordSink['stateOf']> {
    const queue = queues.get(keyOf(partition));
    if (queue === undefined || queue.records.length < mostQueued) return 'room';
    return queue.isWaiting ? 'waits' : 'full';
  }

  return {
    stateOf,
    whenNotFull: (partition) =>
      stateOf(partition) === 'full'
        ? new Promise((resolve) => queueOf(partition).onChange.push(resolve))
        : Promise.resolve(),
    push(record) {
      // A client can have read on in a partition that has gone to another member, which begins at an earlier record.
      if (isEnding || !ours.has(keyOf(record))) return;
      const queue = queueOf(record);
      // After a rebalance a client begins with what was committed last.
      if (record.offset < queue.next) return;
      queue.next = record.offset + 1n;
      queue.records.push(record);
      if (!queue.isHeld && queue.records.length >= mostQueued) {
        queue.isHeld = true;
        source.hold(queue);
      }
      if (!queue.isWorking) {
        queue.isWorking = true;
        queue.work = queue.work.then(() => run(queue));
      }
    },
    assigned(partitions) {
      ours = new Set(partitions.map(keyOf));
      for (const queue of [...queues.values()])
        if (!ours.has(keyOf(queue))) leave(queue);
        // A client that has begun anew knows nothing of it.
        else if (queue.isHeld) source.hold(queue);
    },
    takeCommits() {
      const taken = [...commits.values()];
      commits.clear();
      return taken;
    },
    giveBack(given) {
      for (const commit of given) {
        const key = keyOf(commit);
        if (queues.has(key) && !commits.has(key)) commits.set(key, commit);
      }
    },
    async end() {
      isEnding = true;
      for (const queue of queues.values()) {
        queue.records.length = 0;
        queue.over.abort();
        changed(queue);
      }
      await Promise.all([...[...queues.values()].map(({ work }) => work), ...left.values()]);
    },
    busy: () => [...working].map(({ topic, partition }) => ({ topic, partition })),
  };
}
