import type { BatchPlace } from '../../../../src/adapters/kafka/session.ts';

interface Stored extends BatchPlace {
  readonly count: number;
  readonly events: readonly number[];
  /** All replicas in sync have it: no change of the leader loses it. */
  isAcked: boolean;
}

interface Known {
  epoch: number;
  /** The last five. */
  batches: Stored[];
}

export interface ModelRequest {
  readonly place: BatchPlace;
  readonly events: readonly number[];
}

const end = 2 ** 31;
const remembered = 5;

/** One partition as Kafka keeps it, as far as producers are concerned (ProducerStateManager, ProducerAppendInfo). */
export class ModelPartition {
  log: Stored[] = [];
  private producers = new Map<bigint, Known>();
  private forgotten = 0;
  /** Before Kafka 2.5: who is unknown has to begin at 0. */
  private readonly isOld: boolean;

  constructor(isOld: boolean) {
    this.isOld = isOld;
  }

  /** The error of Kafka, or `undefined`: it is stored, now or before. */
  append({ place, events }: ModelRequest): string | undefined {
    const { producerId, epoch, sequence } = place;
    const known = this.producers.get(producerId);
    if (known === undefined) {
      if (this.isOld && sequence !== 0) return 'UNKNOWN_PRODUCER_ID';
    } else if (epoch < known.epoch) return 'INVALID_PRODUCER_EPOCH';
    else if (epoch > known.epoch) {
      if (sequence !== 0) return 'OUT_OF_ORDER_SEQUENCE_NUMBER';
    } else {
      const isKnown = (batch: Stored) => batch.sequence === sequence && batch.count === events.length;
      if (known.batches.some(isKnown)) return undefined;
      const last = known.batches.at(-1) as Stored;
      if (sequence !== (last.sequence + last.count) % end) return 'OUT_OF_ORDER_SEQUENCE_NUMBER';
    }
    this.log.push({ ...place, count: events.length, events, isAcked: false });
    this.learn(this.log.at(-1) as Stored);
    return undefined;
  }

  /** What was answered is in all replicas, and what stands before it. */
  acked(): void {
    for (const batch of this.log) batch.isAcked = true;
  }

  /** Another broker leads, which may not have the last of what nobody was told of. */
  changeLeader(loses: number): void {
    for (let left = loses; left > 0 && this.log.at(-1)?.isAcked === false; left--) this.log.pop();
    this.producers.clear();
    for (const batch of this.log.slice(this.forgotten)) this.learn(batch);
  }

  /** It forgets who has been silent for long, and whoever leads next does not learn it from those batches. */
  expire(): void {
    this.forgotten = this.log.length;
    this.producers.clear();
  }

  private learn(batch: Stored): void {
    const known = this.producers.get(batch.producerId);
    if (known === undefined || known.epoch !== batch.epoch)
      this.producers.set(batch.producerId, { epoch: batch.epoch, batches: [batch] });
    else known.batches = [...known.batches, batch].slice(-remembered);
  }
}
