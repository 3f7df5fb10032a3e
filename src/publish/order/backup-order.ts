import type { Clock } from '../../ground/clock.ts';
import { orderOf } from '../../ground/event-id.ts';
import type { Logger } from '../../observe/logger.ts';
import { createQuietLog } from '../../observe/quiet-log.ts';
import { createUnderWay, type Generation } from '../api/under-way.ts';
import type { FailedEvent } from '../tier.ts';
import type { KeyOrder, OrderedQueue, OrderState } from './key-order.ts';
import { createPartitionBacklogs, firstOf, lastId, type PartitionBacklog } from './partition-backlogs.ts';
import { createPass, type Pass } from './pass.ts';

export interface BackupOrderOptions {
  readonly partitionOfKey: (key: string, partitionCount: number) => number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The side of `KeyOrder` that the backup and its drain see. */
export interface BackupOrder extends KeyOrder {
  /** The local backup has it. */
  stored(failed: FailedEvent): void;
  /** Whether own events wait, or may wait, in the backup. */
  isBehind(): boolean;
  /** In how many milliseconds a pass could send something; `Infinity`: not before the topics of earlier runs are known anew. */
  nextPassMs(): number;
  /** Resolves when all that was on its way to the backup before is there: then what is read from it is complete. */
  beginPass(): Promise<Pass>;
  /** What an earlier process left comes first. Until this is called for the first time, all events wait. */
  earlierRun(what: EarlierRun): void;
  /** How long the oldest event has waited in the backup, in milliseconds; 0 where none does. */
  oldestMs(): number;
}

/** `first`: new events go behind them. Else the topics whose events of earlier runs could not be sent; the others have none. */
export type EarlierRun = 'first' | { readonly topics: ReadonlySet<string> };

/** So few of a partition are the last ones: what comes meanwhile waits in its queue for them. */
export const lastEvents = 1_000;

export function createBackupOrder(options: BackupOrderOptions): BackupOrder {
  const { clock, logger } = options;
  const backlogs = createPartitionBacklogs(options.partitionOfKey);
  const underWay = createUnderWay();
  const onTheirWay = new Map<FailedEvent, { backlog: PartitionBacklog; generation: Generation }>();
  const say = createQuietLog(logger, clock, { level: 'warn', saysLeftOut: false });
  const topicsSaid = new Set<string>();
  let queue: OrderedQueue | undefined;
  /** Of all topics: not known yet, behind what an earlier process left, or each for itself. */
  let start: 'unknown' | 'behind' | 'known' = 'unknown';
  let startedAtMs = clock.monotonic();
  let earlierTopics: ReadonlySet<string> = new Set();
  let isGuarding = true;
  /** Something is in the backup, or on its way, that belongs to no backlog. */
  let hasOrphans = false;

  function guard(): void {
    isGuarding = start !== 'known' || backlogs.size > 0 || earlierTopics.size > 0;
  }

  function fallBehind(backlog: PartitionBacklog): void {
    backlog.isEnding = false;
    if (!backlog.isBehind) {
      backlog.isBehind = true;
      backlog.sinceMs = clock.monotonic();
      if (!topicsSaid.has(backlog.topic)) {
        topicsSaid.add(backlog.topic);
        const message = `topic "${backlog.topic}": events go behind earlier ones of their partition that wait in the backup`;
        say(`behind ${backlog.topic}`, message);
      }
    }
    queue?.orderChanged(backlog.topic, partitionNow(backlog));
  }

  function open(backlog: PartitionBacklog): void {
    const partition = partitionNow(backlog);
    backlogs.remove(backlog);
    guard();
    const { topic } = backlog;
    if (topicsSaid.has(topic) && ![...backlogs.of(topic)].some(({ isBehind }) => isBehind)) {
      topicsSaid.delete(topic);
      logger.info(`topic "${topic}": nothing waits in the backup any more, events go to the topic again`);
    }
    queue?.orderChanged(topic, partition);
  }

  function stateOf(topic: string, partition: number | undefined): OrderState {
    if (start === 'unknown') return 'undecided';
    if (start === 'behind' || earlierTopics.has(topic)) return 'behind';
    let state: OrderState = 'open';
    for (const backlog of backlogs.ofPartition(topic, partition, queue?.countOf(topic))) {
      if (backlog.isBehind && !backlog.isEnding) return 'behind';
      state = 'undecided';
    }
    return state;
  }

  const behind = (): PartitionBacklog[] => [...backlogs.all()].filter(({ isBehind }) => isBehind);

  const partitionNow = (backlog: PartitionBacklog): number | undefined =>
    backlogs.partitionOf(backlog, queue?.countOf(backlog.topic));

  const firstHeld = (backlog: PartitionBacklog): bigint | undefined =>
    queue?.firstHeld(backlog.topic, partitionNow(backlog));

  function isReady(backlog: PartitionBacklog): boolean {
    if (backlog.retryAtMs > clock.monotonic()) return false;
    return !earlierTopics.has(backlog.topic) && queue?.holds(backlog.topic, partitionNow(backlog)) !== true;
  }

  return {
    get isGuarding() {
      return isGuarding;
    },

    stateOf,
    stateOfKey(topic, key) {
      const count = queue?.countOf(topic);
      const isKnown = key !== null && count !== undefined;
      return stateOf(topic, isKnown ? options.partitionOfKey(key, count) : undefined);
    },

    leaving(failed) {
      const { event, topic, failure } = failed;
      // Its topic never takes it: like a dead letter, it is out of the order.
      if (failure.kind === 'too_large') {
        hasOrphans = true;
        return;
      }
      const backlog = backlogs.make(topic, event.key, queue?.countOf(topic));
      isGuarding = true;
      backlog.pending++;
      const id = orderOf(event.eventId);
      if (id > backlog.latest) backlog.latest = id;
      if (id < backlog.first) backlog.first = id;
      if (id < backlog.nextFirst) backlog.nextFirst = id;
      onTheirWay.set(failed, { backlog, generation: underWay.begin() });
      // It may get there when the pass has read all.
      if (backlog.isEnding) fallBehind(backlog);
    },

    stored(failed) {
      const backlog = onTheirWay.get(failed)?.backlog;
      if (backlog === undefined) return;
      backlog.stored++;
      if (!backlog.isBehind) fallBehind(backlog);
    },

    decided(failed) {
      const known = onTheirWay.get(failed);
      if (known === undefined) return;
      onTheirWay.delete(failed);
      const { backlog, generation } = known;
      backlog.pending--;
      if (backlog.pending === 0 && !backlog.isBehind) open(backlog);
      underWay.end(generation);
    },

    attach(attached) {
      queue = attached;
    },

    isBehind: () => behind().length > 0,

    nextPassMs() {
      const all = behind();
      if (hasOrphans || all.length === 0) return 0;
      const times = all.filter(({ topic }) => !earlierTopics.has(topic)).map(({ retryAtMs }) => retryAtMs);
      return Math.max(0, Math.min(...times) - clock.monotonic());
    },

    async beginPass() {
      /** With the last event of each that this pass is about. */
      const ready = new Map<PartitionBacklog, bigint>();
      const mayBeReady = behind().filter(isReady);
      for (const backlog of mayBeReady) {
        // Those for which there was no room.
        queue?.orderChanged(backlog.topic, partitionNow(backlog));
        ready.set(backlog, backlog.latest);
        backlog.nextFirst = lastId;
        backlog.isEnding = backlog.stored - backlog.storedBefore <= lastEvents;
      }
      const beganMs = clock.monotonic();
      const waiting = behind();
      const isForOrphans = hasOrphans || waiting.length === 0;
      hasOrphans = false;
      await underWay.soFar();
      for (const [backlog, latest] of ready) {
        backlog.storedBefore = backlog.stored;
        const held = firstHeld(backlog);
        if (held !== undefined && held <= latest) ready.set(backlog, held - 1n);
      }
      return createPass({
        ...{ ready, isForOrphans, beganMs, open, fallBehind, monotonic: clock.monotonic },
        from: isForOrphans ? 0n : firstOf(ready.keys(), waiting),
        backlogOf: ({ topic, key }) => (topic === undefined ? undefined : backlogs.find(topic, key)),
        // Without a backlog it is what its topic did not take when all others of its partition were through.
        acceptsOrphan: ({ topic = '' }) => start === 'known' && !earlierTopics.has(topic),
      });
    },

    earlierRun(what) {
      if (what === 'first') {
        start = 'behind';
        startedAtMs = clock.monotonic();
        logger.info('the backup of an earlier run is sent first: new events go behind it');
      } else {
        start = 'known';
        earlierTopics = what.topics;
        guard();
      }
      queue?.orderChanged(undefined, undefined);
    },

    oldestMs() {
      const isLeft = start === 'behind' || earlierTopics.size > 0;
      const times = [...backlogs.all()].filter(({ isBehind }) => isBehind).map(({ sinceMs }) => sinceMs);
      if (isLeft) times.push(startedAtMs);
      return times.length === 0 ? 0 : clock.monotonic() - Math.min(...times);
    },
  };
}
