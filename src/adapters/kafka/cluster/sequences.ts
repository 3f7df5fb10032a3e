import { systemClock } from '../../../ground/clock.ts';
import type { BrokerRecord } from '../../../publish/broker.ts';
import type { ProducerId } from '../protocol/producer-id-request.ts';
import type { BatchPlace } from '../records/record-batch.ts';

/**
 * What became of one try:
 * - `stored`: it is in the topic, by this try or by an earlier one;
 * - `refused`: this try has stored nothing;
 * - `maybe`: nobody knows;
 * - `misplaced`: Kafka knows the producer otherwise than this process, and has stored nothing;
 * - `unplaced`: this topic, or this cluster, takes no batch of a producer with an id.
 */
export type Verdict = 'stored' | 'refused' | 'maybe' | 'misplaced' | 'unplaced';

export interface Tried<T> {
  readonly verdict: Verdict;
  readonly result: T;
  /** The offset after the stored batch, if Kafka told its offset. */
  readonly endOffset?: number | undefined;
}

/**
 * Kafka takes each batch of a partition once: it carries the id and the epoch of its producer and the number of its first record, and the
 * broker, which remembers the last five, knows what it has. So a batch that is sent again has the numbers that it had, and the next one
 * has those behind it. As in Kafka's own producer (KIP-360), a batch whose fate stays unknown ends the epoch: nothing that may
 * still be on its way is taken after a batch of the next one. The epoch is that of the partition, as the broker counts it.
 */
export interface Sequences {
  /**
   * Sends of one partition run one after another. The same records, by their first one and their number, are the same batch.
   * `attempt` is called again where that helps, and never rejects. Rejects where no producer id can be had. The `endOffset` that it gets is
   * the offset after the last stored batch, or 0 if that is not known. A batch before it is in a topic that was created again.
   */
  send<T>(
    topic: string,
    partition: number,
    records: readonly BrokerRecord[],
    attempt: Attempt<T>,
  ): Promise<T>;
}

type Attempt<T> = (place: BatchPlace | undefined, endOffset: number) => Promise<Tried<T>>;

/** A batch that is not known to be stored. */
interface Unended {
  readonly first: BrokerRecord | undefined;
  readonly count: number;
  readonly sequence: number;
  maybeStored: boolean;
}

/** What one partition was sent. */
interface Lane {
  producer: ProducerId | undefined;
  next: number;
  endOffset: number;
  unended: Unended | undefined;
  /** Takes no batch of a producer with an id. */
  isPlain: boolean;
  /** Sends that run, or wait for their turn. */
  waiting: number;
  last: Promise<unknown>;
  /** Used since `forgetOne` last passed over it. */
  isUsed: boolean;
}

/** Kafka counts to here, and begins at 0 again. */
const sequenceEnd = 2 ** 31;
const lastEpoch = 2 ** 15 - 1;
const mostTries = 4;
/** A user may be given the right to have one. */
const askAgainMs = 60_000;
/** Partitions that are remembered; topics can be named by application data. */
const usualLanes = 10_000;

/** @param newProducer a new id; `undefined`: the cluster has none, and batches have no numbers. May reject: it is asked again the next time */
export function createSequences(
  newProducer: () => Promise<ProducerId | undefined>,
  maxLanes = usualLanes,
): Sequences {
  const lanes = new Map<string, Lane>();
  /** What a partition begins with that is not remembered. */
  let current: ProducerId | undefined;
  let asking: Promise<void> | undefined;
  /** When the cluster had none last, on the monotonic clock. */
  let noneAtMs = Number.NEGATIVE_INFINITY;
  const hasNone = (): boolean => systemClock.monotonic() - noneAtMs < askAgainMs;

  /** For one send more. */
  function laneOf(key: string): Lane {
    let lane = lanes.get(key);
    if (lane === undefined) {
      lane = {
        ...{ producer: undefined, next: 0, unended: undefined, isPlain: false, waiting: 0 },
        ...{ last: Promise.resolve(), isUsed: false, endOffset: 0 },
      };
      lanes.set(key, lane);
    } else lane.isUsed = true;
    lane.waiting++;
    if (lanes.size > maxLanes) forgetOne();
    return lane;
  }

  /**
   * Forgets one that was not used lately. A used one has a second chance. Moving it to the end at each use would rebuild the map every few
   * sends, and V8 keeps the old tables and what they hold until a full garbage collection.
   */
  function forgetOne(): void {
    for (const [key, lane] of lanes) {
      const { waiting, producer, unended, isUsed } = lane;
      // Of what may be stored, the numbers are needed still.
      if (waiting > 0 || unended !== undefined) continue;
      lanes.delete(key);
      if (isUsed) {
        lane.isUsed = false;
        lanes.set(key, lane);
        continue;
      }
      // Its numbers are used up, in this epoch.
      if (producer !== undefined && producer.id === current?.id)
        current = producer.epoch < lastEpoch ? laterOf(current, nextEpoch(producer)) : undefined;
      return;
    }
  }

  async function ask(): Promise<void> {
    asking ??= newProducer()
      .then((found) => {
        current = found;
        if (found === undefined) noneAtMs = systemClock.monotonic();
      })
      .finally(() => {
        asking = undefined;
      });
    await asking;
  }

  function restart(lane: Lane, needsNewId = false): void {
    const { producer } = lane;
    lane.next = 0;
    lane.unended = undefined;
    if (producer === undefined) return;
    if (!needsNewId && producer.epoch < lastEpoch) {
      lane.producer = nextEpoch(producer);
      return;
    }
    lane.producer = undefined;
    if (current?.id === producer.id) current = undefined;
  }

  async function placeOf(lane: Lane, records: readonly BrokerRecord[]): Promise<BatchPlace | undefined> {
    const [first] = records;
    const { length: count } = records;
    const isSame = lane.unended?.first === first && lane.unended?.count === count;
    if (!isSame && lane.unended?.maybeStored) restart(lane);
    if (lane.producer === undefined) {
      while (current === undefined && !hasNone()) await ask();
      if (current === undefined) return undefined;
      lane.producer = current;
    }
    if (!isSame || lane.unended === undefined)
      lane.unended = { first, count, sequence: lane.next, maybeStored: false };
    const { id: producerId, epoch } = lane.producer as ProducerId;
    return { producerId, epoch, sequence: lane.unended.sequence };
  }

  function ended(lane: Lane, verdict: Verdict): void {
    const { unended } = lane;
    if (unended === undefined) return;
    if (verdict === 'stored') {
      lane.next = (unended.sequence + unended.count) % sequenceEnd;
      lane.unended = undefined;
    } else if (verdict === 'maybe') unended.maybeStored = true;
    else if (!unended.maybeStored) lane.unended = undefined;
  }

  async function run<T>(lane: Lane, records: readonly BrokerRecord[], attempt: Attempt<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      const place = lane.isPlain ? undefined : await placeOf(lane, records);
      const { verdict, result, endOffset = lane.endOffset } = await attempt(place, lane.endOffset);
      lane.endOffset = endOffset;
      if (place === undefined) return result;
      if (verdict === 'unplaced') lane.isPlain = true;
      else if (verdict === 'misplaced') restart(lane, tries > 1);
      else {
        ended(lane, verdict);
        return result;
      }
      if (tries === mostTries) return result;
    }
  }

  return {
    send(topic, partition, records, attempt) {
      const lane = laneOf(`${topic}\n${partition}`);
      const work = () => run(lane, records, attempt);
      const running = lane.waiting === 1 ? work() : lane.last.then(work);
      lane.last = running.then(
        () => lane.waiting--,
        () => lane.waiting--,
      );
      return running;
    },
  };
}

const nextEpoch = ({ id, epoch }: ProducerId): ProducerId => ({ id, epoch: epoch + 1 });

const laterOf = (one: ProducerId, other: ProducerId): ProducerId => (other.epoch > one.epoch ? other : one);
