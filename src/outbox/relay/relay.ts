// relay/: sends stored events from their table to their topics.

import { createHash, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Config } from '../../config/config.ts';
import { isAlive, ownStamp, type ProcessStamp, wholeSpace } from '../../ground/claims.ts';
import { backoffMs, clock, inTime, within } from '../../ground/clock.ts';
import type { CircuitState } from '../../ground/management.ts';
import { logger, type ThrottledLog, throttledLog } from '../../observe/logger.ts';
import { isolate } from '../../observe/otel-api.ts';
import type { Ledger, PublishDurations } from '../../observe/outcomes.ts';
import {
  type Broker,
  doubtsCount,
  faultOf,
  isNotMade,
  nameOf,
  notMadeFailure,
  partitionOf,
  type SendFailure,
} from '../../publish/broker.ts';
import {
  afterRetries,
  breakerOpen,
  type ClusterState,
  createClusterState,
  createPartitionCounts,
  createTopicRefusals,
  defaultBreaker,
  type PartitionCounts,
} from '../../publish/main/cluster-state.ts';
import { type Batch, createSender, type TopicPartition } from '../../publish/sender/sender.ts';
import { createBatchSize } from '../batches.ts';
import { shardCount } from '../outbox-row.ts';
import type {
  Aggregate,
  ExceptRows,
  OutboxStore,
  RowFailure,
  ShardHolder,
  StoredRow,
} from '../outbox-store.ts';
import { createStatistics, type Statistics } from '../statistics.ts';

/** Metrics of a relay. */
export interface RelayCounters {
  readonly ledger: Pick<Ledger, 'relayed' | 'gaveUp' | 'brokerFailed'>;
  /** From the read of a row until the broker had it. */
  readonly durations: Pick<PublishDurations, 'record'>;
}

export interface RelayParts {
  /** The caller prepares and closes it. */
  readonly store: OutboxStore;
  readonly broker: Broker;
  readonly settings: RelaySettings;
  readonly counters: RelayCounters;
  /** Unique among all relays that ever share the table. */
  readonly owner: string;
}

export interface RelayState {
  readonly circuitBreakerState: CircuitState;
  readonly consecutiveFailures: number;
  /** `null`: nothing sent yet. */
  readonly timeSinceLastSuccessMs: number | null;
  /** PENDING rows, counted within the last seconds; `null`: not yet, or it is on standby. */
  readonly pending: number | null;
  /** Rows by this relay, since its start. */
  readonly processed: RelayBuffer['processed'];
  /** Enough other relays send the rows. It checks from time to time whether it is needed. */
  readonly standsBy?: true;
  /** For two leases it has neither claimed shards nor sent a row. */
  readonly stalled?: Stalled;
  /** One line about topics that refuse their rows. */
  readonly refused?: string;
}

interface Stalled {
  /** Since the last claim or row, or its start. */
  readonly forMs: number;
  /** One line; absent if no claim has been answered. */
  readonly reason?: string;
}

/** The publisher's part of the metrics summary. */
interface RelaySummary
  extends Omit<RelayState, 'pending' | 'processed' | 'standsBy' | 'stalled' | 'refused'> {
  readonly totalPending: number;
  readonly totalFailed: number;
}

/**
 * Sends the rows of the outbox to their topics, at least once, the rows of an aggregate in order. Relays share the table by leases
 * of shards.
 *
 * - A row that fails by its own fault is retried, and blocks its aggregate until it is sent or FAILED. A topic that refuses keeps
 *   only its own rows. An outage of the cluster costs no row a retry.
 * - After a crash, or when the broker's answer is lost, rows are sent again with the same event id.
 * - Order can break in one case: a process suspended for longer than its lease sends a row after another relay has.
 * - Failures of the database or the broker never end it. Its timers are unref'd.
 */
export interface Relay {
  start(): void;
  /** Rows were committed: reads at once. */
  wake(): void;
  /** Whether this relay may send the rows of this shard now. */
  holds(shard: number): boolean;
  state(): RelayState;
  /** Closes its circuit breaker and reads at once. */
  resetBreaker(): void;
  /** Rejects as the store does. */
  summary(): Promise<RelaySummary>;
  readonly statistics: Statistics;
  /**
   * Stops reading, sends and acknowledges the rows in memory, and releases the shards, within the deadline. The next owner of a
   * shard repeats longer sends after the lease has ended. Returns false if there were such sends.
   */
  stop(deadlineMs: number): Promise<boolean>;
  /** Reads all committed rows first, then stops in the same way. Returns whether all were sent. */
  finish(deadlineMs: number): Promise<boolean>;
}

/** A relay as configured, with a unique owner name. */
export function openRelay(
  { outbox }: Config,
  store: OutboxStore,
  broker: Broker,
  counters: RelayCounters,
): Relay {
  return createRelay({
    ...{ store: takingOver(store), broker, counters },
    owner: newOwner(),
    settings: {
      batchSize: outbox.batchSize,
      pollIntervalMs: outbox.pollIntervalMs,
      maxRetries: outbox.maxRetries,
      onFailed: outbox.onFailed,
      sendTimeoutMs: outbox.sendTimeoutSeconds * 1000,
      retentionDays: outbox.retentionDays,
      failedRetentionDays: outbox.failedRetentionDays,
      cleanupEnabled: outbox.cleanupEnabled,
      dynamicBatching: outbox.dynamicBatchingEnabled,
      circuitBreaker: outbox.circuitBreakerEnabled,
    },
  });
}

export function createRelay(parts: RelayParts): Relay {
  const { store, broker, settings, owner, counters } = parts;
  const say = throttledLog({ level: 'warn' });
  const counts = createPartitionCounts((topic) => broker.partitionsFor(topic));
  const refusals = createTopicRefusals();
  const time = createDatabaseTime();
  const statistics = createStatistics(store);
  const cleanup = createCleanup({ store, settings, rests: () => lease.standsBy });
  /** OPEN after 5 consecutive failures of the cluster. HALF-OPEN 60 s later, when one send decides. Rows wait in their table. */
  const cluster = createClusterState({
    threshold: settings.circuitBreaker ? defaultBreaker.threshold : Number.POSITIVE_INFINITY,
    probeIntervalMs: openMs,
    // Faults of single rows never get here.
    countsFatal: true,
    ask: () => broker.describe(),
    onChange(to, _, why) {
      if (to === 'CLOSED') logger.info(`outbox: Circuit breaker is CLOSED${why}: rows are sent again`);
      else if (to === 'HALF-OPEN')
        logger.info('outbox: Circuit breaker is HALF-OPEN: one batch tests the cluster');
      else {
        const wait = `rows wait in their table for ${openMs / 1_000} s`;
        logger.info(`outbox: ${breakerOpen.message}: ${wait} (${why})`);
        buffer.drop();
        reader.recheck();
      }
    },
  });
  const lease = createShardLease({
    ...{ owner, leaseMs: leaseMsFor(settings), say },
    store: {
      isFull: (owner) => store.isFull(owner),
      release: (owner) => store.release(owner),
      claim(owner, leaseMs, options) {
        const askedAtMs = clock.monotonic();
        const onTime = (nowMs: number): void => time.observe(nowMs, askedAtMs);
        return store.claim(owner, leaseMs, { ...options, keeps: buffer.unsettledShards(), onTime });
      },
    },
    withoutSends: (claim, maxWaitMs) => buffer.withoutSends(claim, maxWaitMs),
    onClaim: () => reader.recheck(),
    listen,
  });
  const buffer = createRelayBuffer({
    ...{ store, broker, counts, owner, settings, cluster, refusals, lease, time, say, counters },
    onSpace: () => reader.recheck(),
    onNextPassIn: (ms) => reader.nextPassIn(ms),
  });
  const reader = createReader({ store, settings, buffer, lease, cluster, say });
  let listening: { readonly end: AbortController; readonly done: Promise<unknown> } | undefined;
  let running: Promise<unknown>[] = [];
  let stopped: Promise<boolean> | undefined;

  const holds = (shard: number): boolean => lease.epochOf(shard) !== undefined;

  function listen(is: boolean): void {
    if (!is) listening?.end.abort();
    if (!is) listening = undefined;
    if (!is || listening !== undefined || stopped !== undefined) return;
    const end = new AbortController();
    const hear = async (): Promise<void> =>
      store.notices?.listen((shards) => {
        if (shards === undefined || shards.some(holds)) reader.wake();
      }, end.signal);
    listening = { end, done: isolate(hear).catch(broken) };
  }

  /** The last resort: the application continues, whatever fails in the relay. */
  function broken(error: unknown): void {
    logger.error('outbox: the relay failed and has stopped; please report this', {
      cause: nameOf(error),
    });
  }

  function stalled(): Stalled | undefined {
    const { claimedAtMs, failure } = lease;
    if (claimedAtMs === undefined || stopped !== undefined) return undefined;
    const forMs = clock.monotonic() - Math.max(claimedAtMs, buffer.lastSuccessMs ?? claimedAtMs);
    if (forMs < 2 * leaseMsFor(settings) + (lease.standsBy ? standbyMs : 0)) return undefined;
    return { forMs, ...(failure !== undefined && { reason: failure }) };
  }

  function state(): RelayState {
    const { lastSuccessMs, processed } = buffer;
    const standstill = stalled();
    const refused = refusals.state();
    return {
      circuitBreakerState: cluster.state,
      consecutiveFailures: cluster.consecutiveFailures,
      timeSinceLastSuccessMs:
        lastSuccessMs === undefined || lease.standsBy ? null : Math.round(clock.monotonic() - lastSuccessMs),
      pending: (lease.standsBy ? undefined : statistics.pending()) ?? null,
      processed: { ...processed },
      ...(lease.standsBy && { standsBy: true }),
      ...(standstill && { stalled: standstill }),
      ...(refused !== undefined && { refused }),
    };
  }

  async function stop(deadlineMs: number): Promise<boolean> {
    const endMs = clock.monotonic() + deadlineMs;
    const leftMs = (share: number): number => Math.max(0, (endMs - clock.monotonic()) * share);
    const [reading, ...others] = running;
    reader.stop();
    cleanup.stop();
    const heard = listening?.done;
    listen(false);
    // Rows that cannot be sent in time are dropped while there is time to acknowledge the others.
    const sent = Promise.resolve(reading)
      .then(() => buffer.repeatAll(deadlineMs / 2))
      .then(() => buffer.idle());
    let isIdle = await within(leftMs(0.7), sent);
    buffer.drop();
    isIdle ||= await within(leftMs(0.5), sent);
    lease.stop();
    buffer.stop();
    await within(leftMs(0.5), Promise.all([...others, heard]));
    // A shard with rows in flight keeps its lease until that ends.
    if (!isIdle) {
      logger.warn('outbox: sends were in flight at the end; their rows are sent again');
      return false;
    }
    if (lease.standsBy) return true;
    const released = store.release(owner).catch((error: unknown) => {
      say('release', `outbox: the shards were not released, and stay leased for a while: ${reasonOf(error)}`);
    });
    await within(leftMs(1), released);
    return true;
  }

  /** Reads for half of the time; sending needs the rest. Another relay sends later rows. */
  async function finish(deadlineMs: number): Promise<boolean> {
    const endMs = clock.monotonic() + deadlineMs;
    let isSeen = false;
    if (running.length > 0 && cluster.state !== 'OPEN') {
      const seen = reader.seesAll().then((is) => {
        isSeen = is;
      });
      await within(deadlineMs / 2, seen);
    }
    return (await stop(Math.max(0, endMs - clock.monotonic()))) && isSeen;
  }

  return {
    start() {
      if (running.length > 0 || stopped !== undefined) return;
      running = [reader, lease, cleanup].map((work) => isolate(() => work.run()).catch(broken));
    },
    wake: reader.wake,
    holds,
    state,
    resetBreaker() {
      cluster.reset();
      buffer.retryPartitions();
      reader.nextPassIn(0);
    },
    async summary() {
      const { pending, failed } = await statistics.report();
      const { circuitBreakerState, consecutiveFailures, timeSinceLastSuccessMs } = state();
      return {
        ...{ circuitBreakerState, consecutiveFailures, timeSinceLastSuccessMs },
        ...{ totalPending: pending, totalFailed: failed },
      };
    },
    statistics,
    stop(deadlineMs) {
      stopped ??= isolate(() => stop(deadlineMs));
      return stopped;
    },
    finish(deadlineMs) {
      stopped ??= isolate(() => finish(deadlineMs));
      return stopped;
    },
  };
}

/** The maximum of `setTimeout`. */
const longestMs = 2 ** 31 - 1;

/** Lets one loop sleep until something happens. Its timer is unref'd. */
function createWakeup() {
  let isRaised = false;
  let end: (() => void) | undefined;
  return {
    /** Ends the current wait, or the next one at once. */
    raise(): void {
      isRaised = true;
      end?.();
    },
    /** Waits for `raise`, at most `ms`. One caller at a time. */
    async wait(ms: number): Promise<void> {
      if (!isRaised && ms > 0) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, Math.min(Math.ceil(ms), longestMs)).unref();
          end = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        end = undefined;
      }
      isRaised = false;
    },
  };
}

/** The log line for an error of a store, whose messages contain no values. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown error';
}

/** As configured under `svc.outbox.`. */
export interface RelaySettings {
  /** Rows per read while few wait. */
  readonly batchSize: number;
  /** Longest time between reads, in case `wake` is missed. */
  readonly pollIntervalMs: number;
  /** Retries of a row before it is FAILED. */
  readonly maxRetries: number;
  /** Whether later rows of the aggregate pass a FAILED one. Default: skip. */
  readonly onFailed?: 'skip' | 'block';
  readonly sendTimeoutMs: number;
  /** Age at which PUBLISHED rows are deleted; 0: when they are acknowledged. */
  readonly retentionDays: number;
  /** The same for FAILED rows; 0: never. */
  readonly failedRetentionDays: number;
  readonly cleanupEnabled: boolean;
  /** Reads grow while many rows wait. */
  readonly dynamicBatching: boolean;
  /** Sends stop while the broker is away. */
  readonly circuitBreaker: boolean;
  /** How long a lease of shards lasts, and another relay waits after a crash. Default: enough for the longest send. */
  readonly leaseMs?: number;
}

/** The shortest lease. Another relay waits that long after a crash. */
const shortestLeaseMs = 10_000;
/** How much earlier than in the database a lease ends here, because clocks differ. For short leases, a tenth. */
const marginMs = 1_000;
/** Time limit of a renewal. */
const renewalMs = 1_000;

/** A lease is renewed after each third, and must always be long enough for a send. */
function leaseMsFor({ sendTimeoutMs, leaseMs }: Pick<RelaySettings, 'sendTimeoutMs' | 'leaseMs'>): number {
  return leaseMs ?? Math.max(shortestLeaseMs, Math.ceil(1.5 * (sendTimeoutMs + marginMs + renewalMs)));
}

const leaseMarginMs = (leaseMs: number): number => Math.min(marginMs, leaseMs / 10);

/** How often a standby relay checks again, with jitter, so that thousands of them spread out. */
const standbyMs = 60_000;
const standbyJitter = 0.2;

/** Backoff after a failure of the database. Doubles. */
export const storePauseMs = { first: 500, longest: 30_000 };

interface ShardLeaseOptions {
  readonly store: Pick<OutboxStore, 'isFull' | 'claim' | 'release'>;
  readonly owner: string;
  readonly leaseMs: number;
  readonly say: ThrottledLog;
  /** Runs a claim while nothing is sent. So shards that it gives back have no rows in flight, as far as sends end in time. */
  readonly withoutSends: <T>(claim: () => Promise<T>, maxWaitMs: number) => Promise<T>;
  /** A claim was answered, or failed. */
  readonly onClaim: () => void;
  /** Whether to listen for notices; called with each claim. A standby relay does not listen. */
  readonly listen: (is: boolean) => void;
}

type ShardLease = ReturnType<typeof createShardLease>;

/** The shards whose rows this relay may send, and until when. */
function createShardLease(options: ShardLeaseOptions) {
  const { store, owner, leaseMs, say, withoutSends, onClaim, listen } = options;
  const renewMs = leaseMs / 3;
  const epochs = new Map<number, number>();
  const pause = createWakeup();
  let lastEpoch = 0;
  let untilMs = Number.NEGATIVE_INFINITY;
  /** Until then, it takes no shards whose lease has run out. */
  let leavesUntilMs = Number.NEGATIVE_INFINITY;
  let failures = 0;
  let claimedAtMs: number | undefined;
  let failure: string | undefined;
  let isStopped = false;
  let isAlive = false;
  let standsBy = false;
  let hasNone = false;

  const lasts = (ms: number): boolean => clock.monotonic() + ms < untilMs;

  /**
   * Whether no shard is left. A relay without shards is then released, so that others do not count it; checking costs one query.
   */
  async function isFull(): Promise<boolean> {
    if (epochs.size > 0 || !(await store.isFull(owner))) return false;
    if (isAlive) await store.release(owner);
    isAlive = false;
    return true;
  }

  function stand(by: boolean): void {
    if (by !== standsBy)
      logger.info(
        by
          ? `outbox: ${shardCount} relays already send the rows. This relay stands by, and checks every ${standbyMs / 1_000} s whether it is needed`
          : 'outbox: this relay is needed, and starts',
      );
    standsBy = by;
    listen(!by);
  }

  async function claim(): Promise<void> {
    if (await isFull()) {
      claimedAtMs = clock.monotonic();
      hasNone = true;
      stand(true);
      return;
    }
    const askedAtMs = clock.monotonic();
    // The database or this process was away. Others that were, too, renew their leases first.
    if (failures > 0 || (epochs.size > 0 && !lasts(0))) leavesUntilMs = askedAtMs + leaseMs;
    const shards = await store.claim(owner, leaseMs, { leavesExpired: askedAtMs < leavesUntilMs });
    claimedAtMs = clock.monotonic();
    isAlive = true;
    stand(false);
    // Another relay may have held them meanwhile.
    if (!lasts(0)) epochs.clear();
    untilMs = askedAtMs + leaseMs - leaseMarginMs(leaseMs);
    const held = new Set(shards);
    for (const shard of epochs.keys()) if (!held.has(shard)) epochs.delete(shard);
    for (const shard of held) if (!epochs.has(shard)) epochs.set(shard, ++lastEpoch);
    hasNone = held.size === 0;
  }

  return {
    /** Empty if the lease may have ended. */
    shards: (): readonly number[] => (lasts(0) ? [...epochs.keys()] : []),
    /**
     * A fencing token: changes each time the shard is claimed. `undefined`: not held. Rows read under another epoch are not sent.
     */
    epochOf: (shard: number): number | undefined => (lasts(0) ? epochs.get(shard) : undefined),
    /** Whether it lasts that long, on the monotonic clock. */
    lasts,
    /** The table shows that it is not held: nothing of it is sent before the next claim. */
    lost: (shard: number): void => void epochs.delete(shard),
    /** When the table last answered a claim, or `run` began, on the monotonic clock; `undefined`: neither. */
    get claimedAtMs(): number | undefined {
      return claimedAtMs;
    },
    /** There are as many relays as shards. This one checks from time to time whether it is needed. */
    get standsBy(): boolean {
      return standsBy;
    },
    /** The last claim was answered and gave no shard. */
    get hasNone(): boolean {
      return hasNone;
    },
    /** Why the last claim failed, until one succeeds. */
    get failure(): string | undefined {
      return failure;
    },
    async run(): Promise<void> {
      claimedAtMs = clock.monotonic();
      while (!isStopped) {
        try {
          await withoutSends(claim, leaseMs / 6);
          if (failures > 0) logger.info('outbox: the shards are claimed again');
          failures = 0;
          failure = undefined;
          onClaim();
          await pause.wait(standsBy ? standbyMs * (1 + standbyJitter * (2 * Math.random() - 1)) : renewMs);
        } catch (error) {
          failures++;
          failure = `the shards cannot be claimed: ${reasonOf(error)}`;
          hasNone = false;
          onClaim();
          say('claim', `outbox: ${failure}`);
          await pause.wait(backoffMs(failures, storePauseMs.first, renewMs));
        }
      }
    },
    stop(): void {
      isStopped = true;
      pause.raise();
    },
  };
}

/** Limit of names in one line. */
const maxNamed = 5;

/** Takes over the leases of ended processes of this host. At the start, logs which other relays hold shards. */
function takingOver(store: OutboxStore): OutboxStore {
  const taken = new Set<string>();
  let isFirst = true;

  function isGone(owner: string): boolean {
    const is = isOwnerGone(owner);
    if (is && !taken.has(owner))
      logger.info(`outbox: the process ${shownOwner(owner)} of this host has ended; its rows are taken over`);
    if (is) taken.add(owner);
    return is;
  }

  async function sayOthers(own: string): Promise<void> {
    const others = (await store.holders()).filter(({ owner }) => owner !== own);
    if (others.length > 0) logger.info(`outbox: ${heldText(others)}`);
  }

  return {
    ...store,
    async claim(owner, leaseMs, options) {
      const shards = await store.claim(owner, leaseMs, { ...options, isGone });
      // A log line only, so errors are ignored.
      if (isFirst) sayOthers(owner).catch(() => {});
      isFirst = false;
      return shards;
    },
  };
}

function heldText(others: readonly ShardHolder[]): string {
  const named = others.slice(0, maxNamed).map(({ owner, shards, leaseMs }) => {
    const until = new Date(clock.now() + leaseMs).toISOString().slice(11, 19);
    return `${shards} by ${shownOwner(owner)} until ${until}Z (${Math.ceil(leaseMs / 1_000)} s)`;
  });
  const more = others.length > maxNamed ? `, and by ${others.length - maxNamed} more` : '';
  const count = others.reduce((sum, { shards }) => sum + shards, 0);
  return `${count} of ${shardCount} shards are held by other relays: ${named.join(', ')}${more}. A live relay renews its shards and sends their rows. Rows of a dead relay wait until then`;
}

const ownerPattern = /^(.*:\d+):([0-9a-f]{32})\.(\d+)\.(\d+)\.(\d+):[0-9a-f-]{36}$/;

/**
 * A unique name among relays that share a table: `<host>:<pid>:<thread>:<random>`. `<thread>` identifies the thread on its host, so that
 * other relays there know when it has ended. It is omitted if the system does not tell all of it.
 */
function newOwner(): string {
  const stamp = exactStamp();
  const thread = stamp === undefined ? '' : `${stamp.space}.${stamp.pid}.${stamp.task}.${stamp.began}:`;
  return `${hostname()}:${process.pid}:${thread}${randomUUID()}`;
}

/** True only if the owner was a thread of this host and container, and has certainly ended. */
function isOwnerGone(owner: string): boolean {
  const own = exactStamp();
  const [, , space, pid, task, began] = ownerPattern.exec(owner) ?? [];
  if (own === undefined || space === undefined) return false;
  return !isAlive({ space, pid: Number(pid), task: Number(task), began: Number(began) }, own);
}

/** For people: host and process id. */
function shownOwner(owner: string): string {
  return ownerPattern.exec(owner)?.[1] ?? /^.*?:\d+(?=:)/.exec(owner)?.[0] ?? owner.slice(0, 100);
}

function exactStamp(): ProcessStamp | undefined {
  const space = wholeSpace();
  const stamp = ownStamp();
  if (space === undefined || stamp.task === 0 || stamp.began === 0) return undefined;
  return { ...stamp, space: createHash('sha256').update(space).digest('hex').slice(0, 32) };
}

/** Concurrent sends, to different partitions. */
const maxSends = 8;
/** A send that ends this much later than its time-out: the process was suspended, and missed the answers. */
const stallMs = 1_000;
/** Limits of one send. */
const maxSendRecords = 500;
const maxSendBytes = 512 * 1024;
/** Deferred rows that each read excludes by id. */
const maxDeferred = 5_000;
/** Limit of blocked aggregates in one pass. Beyond it the pass ends. */
const maxBlocked = 200_000;
/** Backoff of a row that failed by its own fault: 1 s, 2 s, 4 s, … */
const firstRetryMs = 1_000;
const longestRetryMs = 60_000;
/** For a topic that refuses. Doubles. */
const topicBackoff = { firstMs: 5_000, longestMs: 60_000 };
/** For a partition that fails. Doubles. */
const partitionBackoff = { firstMs: 1_000, longestMs: 10_000 };

/**
 * How a row leaves the relay's memory:
 * - `sent`;
 * - `deferred` to another pass, with the later rows of its aggregate;
 * - `paused` with its topic, which does not hold up rows of other topics.
 */
type RowEnd = 'sent' | 'deferred' | 'paused';

/** A row in memory, in the queue of its partition. */
interface QueueEntry {
  readonly row: StoredRow;
  /** Of its shard when it was read. */
  readonly epoch: number;
  /** The rows read together. `remaining`: rows of it without an end. */
  readonly page: { remaining: number };
  /** When it was read, and when the broker had it, on the monotonic clock. */
  readonly takenMs: number;
  sentMs?: number;
  readonly repeats?: UncertainBatch;
  /** Its neighbors in the aggregate, while they matter. */
  previous: QueueEntry | undefined;
  next: QueueEntry | undefined;
  end: RowEnd | undefined;
}

type ReadRow = Pick<QueueEntry, 'row' | 'epoch' | 'page' | 'takenMs' | 'repeats'>;

/** The rows of each aggregate in order. A deferred row holds back only the rows behind it. */
function createAggregateOrder() {
  /** The last row in memory of each aggregate. */
  const last = new Map<string, QueueEntry>();
  const blocked = new Set<string>();

  function block(key: string): void {
    blocked.add(key);
    last.delete(key);
  }

  function predecessorOf(entry: QueueEntry): QueueEntry | undefined {
    let previous = entry.previous;
    while (previous?.end !== undefined) previous = previous.previous;
    return previous;
  }

  return {
    /** `undefined`: an earlier row of its aggregate is deferred in this pass, and so this one is, too. */
    add(read: ReadRow): QueueEntry | undefined {
      const key = keyOf(read.row);
      if (blocked.has(key)) return undefined;
      const previous = last.get(key);
      const entry: QueueEntry = { ...read, previous, next: undefined, end: undefined };
      if (previous !== undefined) previous.next = entry;
      last.set(key, entry);
      return entry;
    },
    /** Defers a row that is not in memory, and all behind it. */
    block: (row: Aggregate): void => block(keyOf(row)),
    isBlocked: (row: Aggregate): boolean => blocked.has(keyOf(row)),
    /** The row that `block` was called for is in memory again. */
    unblock: (row: Aggregate): void => void blocked.delete(keyOf(row)),
    /** Returns the rows that ended, `entry` first. Rows behind a deferred row are deferred as well. */
    end(entry: QueueEntry, end: RowEnd): readonly QueueEntry[] {
      const key = keyOf(entry.row);
      if (end !== 'deferred') {
        entry.end = end;
        const first = end === 'sent' ? undefined : predecessorOf(entry);
        // A paused row stays linked: the rows before it still hold back the rows behind it.
        if (end === 'sent' && entry.next !== undefined) entry.next.previous = undefined;
        if (last.get(key) !== entry) return [entry];
        if (first === undefined) last.delete(key);
        else last.set(key, first);
        return [entry];
      }
      const ended: QueueEntry[] = [];
      for (let each: QueueEntry | undefined = entry; each !== undefined; each = each.next) {
        if (each.end !== undefined) continue;
        each.end = 'deferred';
        ended.push(each);
      }
      block(key);
      return ended;
    },
    /** The row that must be sent first, or in the same batch. */
    predecessorOf,
    /** A new pass reads from the first row: nothing is blocked. */
    newPass: (): void => blocked.clear(),
    get blocked(): number {
      return blocked.size;
    },
    /** No further aggregates can be remembered. */
    get isFull(): boolean {
      return blocked.size >= maxBlocked;
    },
  };
}

const keyOf = ({ aggregateType, aggregateId }: Aggregate): string => `${aggregateType}\n${aggregateId}`;

interface Place {
  readonly untilMs: number;
  readonly failures: number;
}

/** Limit of remembered keys. Topic names can come from application data. */
const maxPlaces = 10_000;

/** Topics or partitions that get no sends for a while, with exponential backoff. */
function createBackoffs(options: { readonly firstMs: number; readonly longestMs: number }) {
  const { firstMs, longestMs } = options;
  const places = new Map<string, Place>();
  const paused = new Set<string>();
  return {
    /** True: it was not paused before, or was resumed since. */
    pause(key: string): boolean {
      const failures = (places.get(key)?.failures ?? 0) + 1;
      if (failures === 1 && places.size >= maxPlaces) places.delete(places.keys().next().value as string);
      places.set(key, { failures, untilMs: clock.monotonic() + backoffMs(failures, firstMs, longestMs) });
      paused.add(key);
      return failures === 1;
    },
    /**
     * Also true after the backoff until the next pass begins, which reads the rows left out. Otherwise later rows would be sent
     * before them.
     */
    has: (key: string): boolean => paused.has(key),
    /** It accepted a send. True: it was paused before. */
    resume(key: string): boolean {
      return places.size > 0 && !paused.has(key) && places.delete(key);
    },
    /** The next pass tries all of them again, with their backoff reset. */
    forget: (): void => places.clear(),
    /** A pass begins: ends pauses whose backoff is over. */
    newPass(): void {
      const nowMs = clock.monotonic();
      for (const key of paused) if ((places.get(key)?.untilMs ?? 0) <= nowMs) paused.delete(key);
    },
    /** Milliseconds until the first pause ends; `Infinity`: none. */
    nextMs(): number {
      let nextMs = Number.POSITIVE_INFINITY;
      for (const key of paused) nextMs = Math.min(nextMs, places.get(key)?.untilMs ?? 0);
      return Math.max(0, nextMs - clock.monotonic());
    },
  };
}

/**
 * A batch with an unknown outcome. A broker recognizes a batch only if it is repeated before any other batch of its partition. So
 * its rows stay in memory and are sent first in the next pass, and all other rows of the partition wait for them.
 */
interface UncertainBatch {
  readonly to: TopicPartition;
  readonly entries: readonly QueueEntry[];
  /** Its rows are in the queue of their partition, or in a send. */
  isQueued: boolean;
}

interface RelayBufferOptions {
  readonly store: Pick<OutboxStore, 'ack' | 'fail'>;
  readonly broker: Pick<Broker, 'send' | 'describe'>;
  readonly counts: PartitionCounts;
  readonly owner: string;
  readonly settings: RelaySettings;
  readonly cluster: ClusterState;
  readonly refusals: ReturnType<typeof createTopicRefusals>;
  readonly lease: Pick<ShardLease, 'epochOf' | 'lasts' | 'lost'>;
  readonly time: DatabaseTime;
  readonly say: ThrottledLog;
  readonly counters: RelayCounters;
  /** Memory was freed, or nothing is in flight. */
  readonly onSpace: () => void;
  /** Rows are due again in this many milliseconds. */
  readonly onNextPassIn: (ms: number) => void;
}

type RelayBuffer = ReturnType<typeof createRelayBuffer>;

/** Rows between read and acknowledgment, in the order of their aggregates. */
function createRelayBuffer(options: RelayBufferOptions) {
  const { store, broker, counts, owner, settings, cluster, refusals, lease, time, say, onSpace } = options;
  const order = createAggregateOrder();
  const topics = createBackoffs(topicBackoff);
  const partitions = createBackoffs(partitionBackoff);
  const known = new Map<number, QueueEntry>();
  /** The end of rows since the current read began. */
  const written = new Map<number, 'sent' | 'failed'>();
  /** Rows of this pass that another pass will read again. */
  const deferred = new Set<number>();
  const waiting = new Set<() => void>();
  const { ledger, durations } = options.counters;
  const processed = { published: 0, failed: 0 };
  const pause = createWakeup();
  /** By partition. */
  const uncertain = new Map<string, UncertainBatch>();
  let bytes = 0;
  let lastSuccessMs: number | undefined;
  let isSuspended = false;
  let isStopped = false;

  const acknowledger = createAcknowledger({
    ...{ store, owner, say, keep: settings.retentionDays > 0 },
    onSent(ids, acked) {
      for (const id of acked) countSent(known.get(id));
      if (acked.length < ids.length) shardsLost(ids, new Set(acked));
      for (const id of ids) forget(id, 'sent');
      changed();
    },
    onFailed(failures) {
      for (const { id, retryInMs } of failures) {
        if (retryInMs === null) countFailed(known.get(id));
        forget(id, 'failed');
        options.onNextPassIn(retryInMs ?? 0);
      }
      changed();
    },
    onIdle: changed,
  });

  /** For problems that only an operator can solve. */
  const sayError = throttledLog();
  /** Rows of the last failed send without a known fault of their own, if none has succeeded since. */
  let lastFailedRows: readonly StoredRow[] = [];
  /** The last log line says that events cannot be sent. The cluster logs its own changes. */
  let isSaid = false;

  /** The rows of each send, with the time of its start. */
  const inFlight = new Map<readonly QueueEntry[], number>();
  /** Sends in flight when sending was suspended, as far as it waits for them. */
  const awaited = new Set<readonly QueueEntry[]>();
  const { sendTimeoutMs } = settings;
  const sender = createSender<QueueEntry>({
    ...{
      now: time.now,
      maxInFlight: maxSends,
      limits: { maxEvents: maxSendRecords, maxBytes: maxSendBytes },
    },
    bytesOf: ({ row }) => row.payload.length,
    mayGo,
    uncertain: { batches: new Map(), idOf: ({ row }) => row.eventId },
    // A row cannot go anywhere else.
    splitsMaybeStored: true,
    toRecord: ({ row: { key, payload: value, headers } }, timestamp) => ({ key, value, headers, timestamp }),
    async send({ topic, partition }, records, [first]) {
      const fault = first?.row.fault;
      if (fault !== undefined) return { ok: false, failure: notMadeFailure(fault) };
      return broker.send(topic, partition, records);
    },
    timeLimit: { limitMs: () => sendTimeoutMs, keepsAlive: false, late: () => tooLate(sendTimeoutMs) },
    onSend: (entries) => void inFlight.set(entries, clock.monotonic()),
    onStored(to, entries) {
      applyStored(to, entries);
      sent(entries);
      if (uncertain.delete(to.key)) options.onNextPassIn(0);
    },
    async onFailed(to, batch, failure, about): Promise<'ended'> {
      await applyFailure(to, batch, failure, about);
      sent(batch.events);
      return 'ended';
    },
    onSent: changed,
  });

  function sent(entries: readonly QueueEntry[]): void {
    inFlight.delete(entries);
    awaited.delete(entries);
  }

  /** Ends a row that cannot be sent in this pass. */
  function mayGo(
    entry: QueueEntry,
    { topic, key, isLate }: TopicPartition,
    batch: ReadonlySet<QueueEntry>,
  ): 'send' | 'wait' | 'ended' {
    const { row, epoch, end } = entry;
    if (isSuspended) return 'wait';
    if (end !== undefined) return 'ended';
    const isPaused = !isLate && topics.has(topic);
    const isMine = lease.epochOf(row.shard) === epoch;
    const isOther = uncertain.has(key) && uncertain.get(key) !== entry.repeats;
    const isAway = isLate || partitions.has(key) || cluster.state === 'OPEN';
    if (isPaused || isAway || isOther || !isMine || !lease.lasts(sendTimeoutMs)) {
      // Its other rows are a batch of their own.
      if (!isMine && !isOther) uncertain.delete(key);
      settle(entry, isPaused ? 'paused' : 'deferred');
      return 'ended';
    }
    const first = order.predecessorOf(entry);
    const isTested = cluster.state === 'HALF-OPEN' && inFlight.size > 0;
    return isTested || (first !== undefined && !batch.has(first)) ? 'wait' : 'send';
  }

  function drop(): void {
    for (const entry of sender.takeAll()) settle(entry, 'deferred');
  }

  function settle(entry: QueueEntry, end: RowEnd): void {
    if (entry.end !== undefined) return;
    for (const each of order.end(entry, end)) {
      if (end === 'sent') {
        each.sentMs = clock.monotonic();
        acknowledger.sent(each.row.id);
      } else {
        defer(each.row.id);
        if (each.repeats !== undefined) each.repeats.isQueued = false;
      }
      if (--each.page.remaining === 0) acknowledger.flush();
    }
    if (end === 'deferred') options.onNextPassIn(partitionBackoff.firstMs);
  }

  /** It stays in memory until the failure is written: a read before that would send it at once. */
  function spendRetry(entry: QueueEntry, failure: RowFailure): void {
    for (const each of order.end(entry, 'deferred')) {
      if (each !== entry) defer(each.row.id);
      if (--each.page.remaining === 0) acknowledger.flush();
    }
    acknowledger.failed(failure);
    acknowledger.flush();
  }

  function defer(id: number): void {
    deferred.add(id);
    forget(id);
  }

  function forget(id: number, why?: 'sent' | 'failed'): void {
    const entry = known.get(id);
    if (entry === undefined) return;
    known.delete(id);
    bytes -= entry.row.payload.length;
    if (why !== undefined) written.set(id, why);
  }

  function partitionFor({ topic, key, fault }: StoredRow): number | undefined {
    const count = fault === undefined ? counts.known(topic) : undefined;
    return count === undefined ? undefined : partitionOf(key, count);
  }

  const holds = (topic: string, partition: number | undefined): boolean =>
    [...uncertain.values()].some(({ to }) => to.topic === topic && to.partition === partition);

  function take(read: ReadRow, topic: string, partition: number | undefined): void {
    const { row, page } = read;
    const entry = order.add(read);
    if (entry === undefined) {
      deferred.add(row.id);
      return;
    }
    page.remaining++;
    known.set(row.id, entry);
    bytes += row.payload.length;
    sender.put(entry, topic, partition);
  }

  const mustWait = ({ to }: UncertainBatch): boolean => partitions.has(to.key) || topics.has(to.topic);

  /** Queues the rows of a batch again. False: they cannot be sent now. */
  function repeat(batch: UncertainBatch): boolean {
    const { to, entries } = batch;
    const cannot = ({ row }: QueueEntry): boolean => known.has(row.id) || order.isBlocked(row);
    if (mustWait(batch) || entries.some(cannot)) return false;
    batch.isQueued = true;
    const page = { remaining: 0 };
    for (const { row, epoch, takenMs } of entries)
      take({ row, epoch, takenMs, page, repeats: batch }, to.topic, to.partition);
    return true;
  }

  /** Its rows wait for the next pass, and the rows behind them. */
  function keepBack({ to, entries }: UncertainBatch): void {
    for (const { row } of entries) {
      deferred.add(row.id);
      if (!topics.has(to.topic)) order.block(row);
    }
  }

  /** Another relay has its rows now, or the topic has been created again without its partition. */
  function isGone({ to, entries }: UncertainBatch): boolean {
    const count = counts.known(to.topic);
    const hasPartition = count === undefined || to.partition === undefined || to.partition < count;
    return !hasPartition || entries.some(({ row, epoch }) => lease.epochOf(row.shard) !== epoch);
  }

  function repeatUncertain(): void {
    for (const batch of [...uncertain.values()]) {
      if (batch.isQueued) continue;
      if (isGone(batch)) uncertain.delete(batch.to.key);
      else if (cluster.state !== 'CLOSED' || !repeat(batch)) keepBack(batch);
    }
    sender.pump();
  }

  function newPass(): void {
    deferred.clear();
    order.newPass();
    // Its failure is not written yet: it is not read again, and the rows behind it must wait.
    for (const { row, end } of known.values()) if (end === 'deferred') order.block(row);
    topics.newPass();
    partitions.newPass();
    repeatUncertain();
  }

  const nextPausedMs = (): number => Math.min(topics.nextMs(), partitions.nextMs());

  function applyStored(partition: TopicPartition, entries: readonly QueueEntry[]): void {
    if (isSaid) logger.info('outbox: events are sent again');
    isSaid = false;
    cluster.answered();
    lastSuccessMs = clock.monotonic();
    lastFailedRows = [];
    partitions.resume(partition.key);
    refusals.taken(partition.topic);
    if (topics.resume(partition.topic)) logger.info(`outbox: topic "${partition.topic}" takes events again`);
    for (const entry of entries) settle(entry, 'sent');
  }

  /** The cluster answered, unless it was not asked. */
  function heard(failure: SendFailure): void {
    if (!isNotMade(failure)) cluster.answered();
  }

  function failedAlone(entry: QueueEntry, failure: SendFailure): void {
    heard(failure);
    const { id, retryCount, eventId, eventType, topic } = entry.row;
    const fields = { eventId, eventType, topic, cause: failure.cause, retryCount };
    if (retryCount < settings.maxRetries && !isNotMade(failure)) {
      say(
        `event ${failure.cause}`,
        `outbox: an event was refused, and is tried again: ${failure.message}`,
        fields,
      );
      const retryInMs = backoffMs(retryCount + 1, firstRetryMs, longestRetryMs);
      const lastError = oneLine(failure);
      spendRetry(entry, { id, retryCount: retryCount + 1, lastError, retryInMs });
      return;
    }
    const last = afterRetries(failure, retryCount);
    const follows = settings.onFailed === 'block' ? 'blocks its aggregate' : 'is set aside';
    sayError(
      `event FAILED ${failure.cause}`,
      `outbox: an event is FAILED and ${follows}; npx --no svc outbox retry-failed sends it again: ${last.message}`,
      fields,
    );
    const lastError = oneLine(last);
    spendRetry(entry, { id, retryCount: retryCount + 1, lastError, retryInMs: null });
  }

  /** Its rows are sent in another pass. */
  function putBack(
    to: TopicPartition,
    { events, maybeStored }: Batch<QueueEntry>,
    end: 'deferred' | 'paused',
  ): void {
    for (const entry of events) settle(entry, end);
    if (maybeStored) uncertain.set(to.key, { to, entries: events, isQueued: false });
  }

  function refused(to: TopicPartition, batch: Batch<QueueEntry>, failure: SendFailure): void {
    const { topic } = to;
    cluster.failed(failure, true);
    refusals.refused(topic, failure, false);
    if (topics.pause(topic))
      logger.warn(`outbox: the events for topic "${topic}" wait in their table: ${failure.message}`, {
        cause: failure.cause,
      });
    putBack(to, batch, 'paused');
  }

  function away(to: TopicPartition, batch: Batch<QueueEntry>, failure: SendFailure, tookMs: number): void {
    partitions.pause(to.key);
    lastFailedRows = batch.events.map(({ row }) => row);
    // The process was suspended and missed the answers: this says nothing about the cluster.
    const isUnheard = tookMs > settings.sendTimeoutMs + stallMs;
    if (!isUnheard || cluster.state === 'HALF-OPEN') cluster.failed(failure, true);
    isSaid = cluster.state === 'CLOSED';
    if (isSaid)
      say('send', `outbox: events cannot be sent, and wait in their table: ${failure.message}`, {
        topic: to.topic,
        cause: failure.cause,
      });
    putBack(to, batch, 'deferred');
  }

  /** A broker drops the connection above its maximum request size, which looks like an outage. */
  async function isOnlyTooLarge({ payload }: StoredRow, { kind }: SendFailure): Promise<boolean> {
    if (payload.length <= maxSendBytes || (kind !== 'retriable' && kind !== 'unknown_outcome')) return false;
    const answer = broker.describe().then(
      () => true,
      () => false,
    );
    return inTime(answer, { limitMs: settings.sendTimeoutMs, keepsAlive: false, late: () => false });
  }

  async function applyFailure(
    to: TopicPartition,
    batch: Batch<QueueEntry>,
    failure: SendFailure,
    { isSplit, tookMs }: { readonly isSplit: boolean; readonly tookMs: number },
  ): Promise<void> {
    const isAgain = uncertain.delete(to.key);
    const [first] = batch.events;
    ledger.brokerFailed(failure.kind);
    const fault = faultOf(failure);
    if (doubtsCount(failure)) void counts.ask(to.topic);
    if (isSplit || first === undefined) return heard(failure);
    // The first time, the broker may have stored it.
    const mayBeTooLarge = batch.events.length === 1 && fault === 'cluster' && isAgain;
    if (fault === 'record' || (mayBeTooLarge && (await isOnlyTooLarge(first.row, failure))))
      failedAlone(first, failure);
    else if (fault !== 'cluster') refused(to, batch, failure);
    else away(to, batch, failure, tookMs);
  }

  function shardsLost(ids: readonly number[], acked: ReadonlySet<number>): void {
    for (const id of ids) {
      const entry = known.get(id);
      if (entry !== undefined && !acked.has(id)) lease.lost(entry.row.shard);
    }
  }

  /** A row counts when its end is written: so it counts once, whichever relay sent it. */
  function countSent(entry: QueueEntry | undefined): void {
    if (entry?.sentMs === undefined) return;
    const { eventType } = entry.row;
    processed.published++;
    ledger.relayed(eventType);
    durations.record(eventType, (entry.sentMs - entry.takenMs) / 1_000);
  }

  function countFailed(entry: QueueEntry | undefined): void {
    if (entry === undefined) return;
    processed.failed++;
    ledger.gaveUp(entry.row.eventType);
  }

  function changed(): void {
    if (awaited.size === 0 && (isSuspended || inFlight.size === 0)) acknowledger.flush();
    for (const look of [...waiting]) look();
    onSpace();
  }

  function until(isSo: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (!isSo()) return;
        waiting.delete(look);
        resolve();
      };
      waiting.add(look);
      look();
    });
  }

  /** Does not accept rows that are not due or already sent, nor rows of a paused topic. */
  function accepts(row: StoredRow): boolean {
    const entry = known.get(row.id);
    const became = entry?.end === 'deferred' ? 'failed' : written.get(row.id);
    if (became === 'failed') order.block(row);
    if (entry !== undefined || became !== undefined) return false;
    if (topics.has(row.topic)) return false;
    if (row.waitMs <= 0) return true;
    order.block(row);
    options.onNextPassIn(row.waitMs);
    return false;
  }

  return {
    /** Call before each read, whose result may still contain rows acknowledged from then on. */
    startReading: (): void => written.clear(),

    /** Adds rows. Returns how many of them wait for a send. The others are known, deferred or paused. */
    async add(rows: readonly StoredRow[], epochs: ReadonlyMap<number, number>): Promise<number> {
      const names = new Set<string>();
      for (const { topic, fault } of rows) if (fault === undefined && !topics.has(topic)) names.add(topic);
      const unknown = [...names].filter((topic) => counts.known(topic) === undefined);
      const limit = { limitMs: settings.sendTimeoutMs, keepsAlive: false, late: () => undefined };
      await inTime(Promise.all(unknown.map(counts.ask)), limit);
      if (isStopped) return 0;
      const page = { remaining: 0 };
      const takenMs = clock.monotonic();
      for (const row of rows) {
        const epoch = epochs.get(row.shard);
        if (accepts(row) && epoch !== undefined)
          take({ row, epoch, page, takenMs }, row.topic, partitionFor(row));
        else deferred.add(row.id);
      }
      sender.pump();
      return page.remaining;
    },

    newPass,
    /** Repeats the uncertain batches at the end of a relay: until none is left, the cluster is away, or the time is over. */
    async repeatAll(limitMs: number): Promise<void> {
      const endMs = clock.monotonic() + limitMs;
      while (uncertain.size > 0 && cluster.state === 'CLOSED' && !isStopped) {
        const waitMs = nextPausedMs();
        if (clock.monotonic() + waitMs < endMs) await pause.wait(waitMs);
        newPass();
        if (known.size === 0) return;
        await until(() => known.size === 0);
      }
    },

    /** The rows that do not wait for an uncertain batch. */
    free: (rows: readonly StoredRow[]): readonly StoredRow[] =>
      rows.filter((row) => !holds(row.topic, partitionFor(row))),
    /** Tests the cluster with an uncertain batch. `isOther`: not with one that failed last. False: no batch can be sent. */
    testAgain(isOther: boolean): boolean {
      const failed = new Set(lastFailedRows.map(({ id }) => id));
      for (const batch of uncertain.values()) {
        if (isOther && batch.entries.some(({ row }) => failed.has(row.id))) continue;
        for (const { row } of batch.entries) order.unblock(row);
        if (repeat(batch)) {
          sender.pump();
          return true;
        }
        keepBack(batch);
      }
      return false;
    },
    /** Shards with rows that the broker may have, but the table does not know it. Another relay would send them again. */
    unsettledShards(): readonly number[] {
      const shards = new Set<number>();
      const note = ({ row }: QueueEntry): void => void shards.add(row.shard);
      for (const entry of known.values()) if (entry.end !== undefined) note(entry);
      for (const entries of inFlight.keys()) entries.forEach(note);
      for (const { entries } of uncertain.values()) entries.forEach(note);
      return [...shards];
    },

    /** Defers their rows in this pass. */
    block: (aggregates: readonly Aggregate[]): void => aggregates.forEach(order.block),

    /** Ids of rows in memory and of rows deferred in this pass; `undefined`: too many. */
    knownIds: (): readonly number[] | undefined =>
      deferred.size > maxDeferred ? undefined : [...known.keys(), ...deferred],

    /** Runs `work` while nothing is sent. Before, it waits for acknowledgments in the table, up to `maxWaitMs`. */
    async withoutSends<T>(work: () => Promise<T>, maxWaitMs: number): Promise<T> {
      isSuspended = true;
      const promptSinceMs = clock.monotonic() - promptMs;
      for (const [entries, sinceMs] of inFlight) if (sinceMs > promptSinceMs) awaited.add(entries);
      acknowledger.flush();
      const quiet = until(() => awaited.size === 0 && acknowledger.isIdle);
      await inTime(quiet, { limitMs: maxWaitMs, keepsAlive: false, late: () => undefined });
      try {
        return await work();
      } finally {
        isSuspended = false;
        awaited.clear();
        sender.pump();
      }
    },

    /** Partitions that failed are tried again in the next pass. */
    retryPartitions: partitions.forget,
    /** Defers all rows that are not in a send. */
    drop,
    /** Resolves when memory is empty. */
    idle: (): Promise<void> => until(() => known.size === 0),
    /** Adds no further rows, and stops acknowledging. */
    stop(): void {
      isStopped = true;
      pause.raise();
      drop();
      acknowledger.stop();
    },
    get rows() {
      return known.size;
    },
    get bytes() {
      return bytes;
    },
    /** Aggregates that wait for another pass. */
    get blocked() {
      return order.blocked;
    },
    get isFull() {
      return order.isFull;
    },
    /** Milliseconds until a paused topic or partition is tried again. */
    nextPausedMs,
    processed,
    /** On the monotonic clock; `undefined`: none yet. */
    get lastSuccessMs() {
      return lastSuccessMs;
    },
    get lastFailedRows() {
      return lastFailedRows;
    },
  };
}

/** `withoutSends` does not wait for older sends: a partition that hangs must not hold up others. */
const promptMs = 500;

function tooLate(sendTimeoutMs: number): SendFailure {
  return {
    kind: 'unknown_outcome',
    cause: 'TimeoutException',
    message: `not acknowledged within ${sendTimeoutMs} ms (svc.outbox.send-timeout-seconds)`,
  };
}

interface AcknowledgerOptions {
  readonly store: Pick<OutboxStore, 'ack' | 'fail'>;
  readonly owner: string;
  /** `false`: sent rows are deleted. */
  readonly keep: boolean;
  readonly say: ThrottledLog;
  /** Written. Rows outside `acked` belong to a lost shard, and another relay sends them again. */
  readonly onSent: (ids: readonly number[], acked: readonly number[]) => void;
  readonly onFailed: (failures: readonly RowFailure[]) => void;
  readonly onIdle: () => void;
}

/** A sent row waits at most this long for the rest of its batch, because a partition may hang. */
const lingerMs = 100;

/** Writes the ends of rows, in one statement for many. After an error it tries again; meanwhile they are not sent again. */
function createAcknowledger(options: AcknowledgerOptions) {
  const { store, owner, keep, say, onSent, onFailed, onIdle } = options;
  const pause = createWakeup();
  let sent: number[] = [];
  let failures: RowFailure[] = [];
  let isWriting = false;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;

  async function write(): Promise<void> {
    isWriting = true;
    clearTimeout(timer);
    timer = undefined;
    for (let failed = 0; sent.length + failures.length > 0 && !isStopped; ) {
      try {
        await writeFailures();
        await writeSent();
        failed = 0;
      } catch (error) {
        failed++;
        say('ack', `outbox: sent rows cannot be marked in the table yet: ${reasonOf(error)}`);
        if (!isStopped) await pause.wait(backoffMs(failed, storePauseMs.first, storePauseMs.longest));
      }
    }
    isWriting = false;
    onIdle();
  }

  async function writeFailures(): Promise<void> {
    // Failures added during the write stay for the next one.
    const written = [...failures];
    if (written.length === 0) return;
    await store.fail(owner, written);
    failures = failures.slice(written.length);
    onFailed(written);
  }

  async function writeSent(): Promise<void> {
    const ids = [...sent];
    if (ids.length === 0) return;
    const acked = await store.ack(owner, ids, keep);
    sent = sent.slice(ids.length);
    onSent(ids, acked);
  }

  function flush(): void {
    if (!isWriting && !isStopped && sent.length + failures.length > 0) void write();
  }

  return {
    sent(id: number): void {
      sent.push(id);
      timer ??= setTimeout(() => {
        timer = undefined;
        flush();
      }, lingerMs).unref();
    },
    /** Failed by its own fault. */
    failed: (failure: RowFailure) => void failures.push(failure),
    /** Writes all ends, after the current write. */
    flush,
    get isIdle() {
      return !isWriting && sent.length + failures.length === 0;
    },
    /** Stops retrying. */
    stop() {
      isStopped = true;
      clearTimeout(timer);
      pause.raise();
    },
  };
}

/** Limit of `last_error`, in characters. */
const maxErrorLength = 500;

function oneLine({ cause, message }: SendFailure): string {
  return `${cause}: ${message}`.replace(/\s+/g, ' ').slice(0, maxErrorLength);
}

/** From opening to the first probe, and from one probe to the next. */
const openMs = 60_000;

/** How often a pass begins again at the first row, to find late commits and retries. */
const restartMs = 1_000;
/** After a pass over many rows that cannot be sent, rests for this multiple of its duration. */
const restFactor = 4;
const longestRestMs = 60_000;
/** Minimum interval of reads after `wake`, because more rows may follow. */
const wakeDebounceMs = 10;
/** Limits of rows in memory, read and not acknowledged: pages and bytes. */
const maxPages = 4;
const maxBytes = 32 * 1024 * 1024;
/** Rows of the single batch that tests the cluster. */
const probeRows = 10;

interface ReaderOptions {
  readonly store: Pick<OutboxStore, 'pending' | 'failedAggregates'>;
  readonly settings: RelaySettings;
  readonly buffer: RelayBuffer;
  readonly lease: Pick<ShardLease, 'shards' | 'epochOf' | 'hasNone' | 'failure'>;
  readonly cluster: ClusterState;
  readonly say: ThrottledLog;
}

/**
 * Reads due rows by id, while the batches before are sent and acknowledged. Each read excludes only known rows. So a transaction
 * that began early and commits late cannot fall behind a later one of its aggregate. About every second a new pass begins, which
 * retries deferred rows.
 */
function createReader(options: ReaderOptions) {
  const { store, settings, buffer, lease, cluster, say } = options;
  const size = createBatchSize(settings);
  const signal = createWakeup();
  let isStopped = false;
  /** All on the monotonic clock. */
  let nextReadAtMs = Number.NEGATIVE_INFINITY;
  let nextPassAtMs = Number.NEGATIVE_INFINITY;
  let readAtMs = Number.NEGATIVE_INFINITY;
  let wakeAtMs = Number.POSITIVE_INFINITY;
  /** For a pass with too many deferred rows to exclude by id. */
  let lastId = 0;
  /** The shards of this pass. A new one needs a new pass, because this one has passed its first rows. */
  let epochs = new Map<number, number>();
  /** Time that this pass has spent on rows that cannot be sent. */
  let idleMs = 0;
  let failures = 0;
  /** A probe with other rows than the failed ones was tried, and none can be sent now. */
  let hasNoOtherRows = false;
  /** The caller of `seesAll`. `isBegun`: a read has begun that excludes only known rows. */
  let look: { isBegun: boolean; readonly end: (isSeen: boolean) => void } | undefined;

  function endLook(isSeen: boolean): void {
    look?.end(isSeen);
    look = undefined;
  }

  /** Ends `seesAll` without a read. */
  function checkLook(): void {
    if (cluster.state === 'OPEN' || failures > 0 || lease.failure !== undefined) endLook(false);
    else if (lease.hasNone) endLook(true);
  }

  async function beginPass(nowMs: number): Promise<void> {
    epochs = new Map();
    for (const shard of lease.shards()) epochs.set(shard, lease.epochOf(shard) as number);
    lastId = 0;
    idleMs = 0;
    nextPassAtMs = nowMs + restartMs;
    buffer.newPass();
    if (settings.onFailed === 'block') buffer.block(await store.failedAggregates([...epochs.keys()]));
  }

  function hasOtherShards(): boolean {
    const shards = lease.shards();
    return (
      shards.length !== epochs.size || shards.some((shard) => lease.epochOf(shard) !== epochs.get(shard))
    );
  }

  const isTesting = (): boolean => cluster.state === 'HALF-OPEN';

  function hasSpace(): boolean {
    if (isTesting()) return buffer.rows === 0;
    return buffer.rows <= (maxPages - 1) * size.maxRows && buffer.bytes < maxBytes;
  }

  /** Milliseconds until the next read; 0: now. */
  function restMs(nowMs: number): number {
    if (cluster.state === 'OPEN') {
      const openForMs = cluster.openForMs();
      if (openForMs > 0) return openForMs;
      if (cluster.admit() !== 'probe') return 1;
      nextPassAtMs = nowMs;
      nextReadAtMs = nowMs;
    }
    if (lease.shards().length === 0 || !hasSpace()) return settings.pollIntervalMs;
    if (hasOtherShards()) {
      nextPassAtMs = nowMs;
      nextReadAtMs = nowMs;
    }
    return Math.min(nextReadAtMs, wakeAtMs) - nowMs;
  }

  /**
   * The failed rows may fail for a reason of their own: tests the cluster with other rows, if possible. Returns no rows if a
   * batch with an unknown outcome is the test.
   */
  async function probe(except: ExceptRows): Promise<readonly StoredRow[]> {
    const shards = [...epochs.keys()];
    const { lastFailedRows } = buffer;
    if (lastFailedRows.length > 0 && !hasNoOtherRows) {
      const ids = [...except.ids, ...lastFailedRows.map(({ id }) => id)];
      const keys = new Set(lastFailedRows.map(keyOf));
      const found = await store.pending(shards, { ...except, ids }, size.rows);
      const others = buffer.free(found.filter((row) => !keys.has(keyOf(row))));
      if (others.length > 0) {
        buffer.block(lastFailedRows);
        return others.slice(0, probeRows);
      }
    }
    if (buffer.testAgain(true)) return [];
    const rows = buffer.free(await store.pending(shards, except, size.rows));
    if (rows.length === 0) buffer.testAgain(false);
    return rows.slice(0, probeRows);
  }

  async function read(): Promise<void> {
    const nowMs = clock.monotonic();
    if (nowMs >= nextPassAtMs) await beginPass(nowMs);
    readAtMs = nowMs;
    if (wakeAtMs <= nowMs) wakeAtMs = Number.POSITIVE_INFINITY;
    const limit = isTesting() ? probeRows : size.rows;
    buffer.startReading();
    const known = buffer.knownIds();
    const except = known === undefined ? { upToId: lastId, ids: [] } : { upToId: 0, ids: known };
    if (look !== undefined && except.upToId === 0) look.isBegun = true;
    const reading = isTesting() ? probe(except) : store.pending([...epochs.keys()], except, limit);
    const rows = await reading.catch((error: unknown) => {
      size.failed();
      throw error;
    });
    if (isStopped) return;
    if (failures > 0) logger.info('outbox: the table is read again');
    failures = 0;
    lastId = Math.max(lastId, rows.at(-1)?.id ?? 0);
    const isFull = rows.length >= limit;
    if (!isTesting()) size.read(rows);
    const isLast = isTesting() ? rows.length === 0 : !isFull;
    const begun = look?.isBegun === true;
    const taken = await buffer.add(rows, epochs);
    if (begun && isLast) endLook(true);
    const hadNoOtherRows = hasNoOtherRows;
    hasNoOtherRows = isTesting() && taken === 0 && buffer.rows === 0;
    if (hasNoOtherRows && !hadNoOtherRows) {
      nextPassAtMs = nowMs;
      nextReadAtMs = nowMs;
      return;
    }
    if (isFull && taken === 0) {
      idleMs += clock.monotonic() - nowMs;
      nextPassAtMs = Math.max(nextPassAtMs, nowMs + Math.min(idleMs * restFactor, longestRestMs));
    }
    nextReadAtMs = nowMs;
    // `seesAll` was called during this read: it needs a pass from the first row.
    if (look?.isBegun === false) nextPassAtMs = nowMs;
    if (isFull && !buffer.isFull) return;
    // All rows are read. Only deferred and new ones remain.
    const passMs = nextPassAtMs - clock.monotonic();
    const againMs = buffer.blocked > 0 ? passMs : Math.max(passMs, buffer.nextPausedMs());
    nextReadAtMs = clock.monotonic() + Math.max(1, Math.min(settings.pollIntervalMs, againMs));
  }

  function nextPassIn(ms: number): void {
    const atMs = clock.monotonic() + ms;
    nextPassAtMs = Math.min(nextPassAtMs, atMs);
    if (failures === 0) wakeAtMs = Math.min(wakeAtMs, atMs);
    signal.raise();
  }

  return {
    async run(): Promise<void> {
      while (!isStopped) {
        checkLook();
        const waitMs = restMs(clock.monotonic());
        if (waitMs > 0) {
          await signal.wait(waitMs);
          continue;
        }
        try {
          await read();
        } catch (error) {
          failures++;
          endLook(false);
          const pauseMs = backoffMs(failures, storePauseMs.first, storePauseMs.longest);
          say('read', `outbox: the table cannot be read; svc tries again: ${reasonOf(error)}`);
          nextPassAtMs = clock.monotonic() + pauseMs;
          nextReadAtMs = nextPassAtMs;
        }
      }
    },
    /** New rows exist. */
    wake(): void {
      // While the database fails, its backoff applies.
      if (failures > 0) return;
      wakeAtMs = Math.min(wakeAtMs, Math.max(clock.monotonic(), readAtMs + wakeDebounceMs));
      signal.raise();
    },
    /** Memory was freed, the breaker's state has changed, or shards were claimed. */
    recheck: signal.raise,
    /** Skipped rows are due in this many milliseconds. */
    nextPassIn,
    /**
     * Resolves with true when all rows that exist after the call are in memory, or there are no shards to read. Resolves with false
     * when the database fails, or nothing can be sent.
     */
    seesAll(): Promise<boolean> {
      const seen = new Promise<boolean>((resolve) => {
        look = { isBegun: false, end: resolve };
      });
      nextPassIn(0);
      return seen;
    },
    stop(): void {
      isStopped = true;
      endLook(false);
      signal.raise();
    },
  };
}

/** Interval of cleanups. The first one waits until the start is over. */
const cleanupIntervalMs = 600_000;
const firstCleanupMs = 60_000;
/** Rows of one DELETE: short transactions hold up others only briefly. */
const cleanupRows = 1_000;
/** Between two of them. */
const cleanupPauseMs = 200;

const dayMs = 86_400_000;

interface CleanupOptions {
  readonly store: Pick<OutboxStore, 'cleanup' | 'partition'>;
  readonly settings: Pick<RelaySettings, 'cleanupEnabled' | 'retentionDays' | 'failedRetentionDays'>;
  /** True: another relay does it. */
  readonly rests: () => boolean;
}

/** Deletes old rows, one instance at a time. */
function createCleanup({ store, settings, rests }: CleanupOptions) {
  const { retentionDays, failedRetentionDays } = settings;
  const say = throttledLog({ level: 'warn' });
  const pause = createWakeup();
  let isStopped = !settings.cleanupEnabled;

  /** Partitions of whole days are dropped. Rows a day older remain if their partition could not be dropped. */
  async function daysOfRows(): Promise<number> {
    try {
      return (await store.partition(retentionDays * dayMs)) ? retentionDays + 1 : retentionDays;
    } catch (error) {
      say('partitions', `outbox: ${reasonOf(error)}`);
      return retentionDays;
    }
  }

  async function cleanUp(status: 'PUBLISHED' | 'FAILED', days: number): Promise<void> {
    for (let deleted = cleanupRows, sum = 0; deleted >= cleanupRows && !isStopped; ) {
      deleted = await store.cleanup(status, days * dayMs, cleanupRows);
      sum += deleted;
      if (deleted >= cleanupRows) await pause.wait(cleanupPauseMs);
      else if (sum > 0) logger.debug(`outbox: old ${status} rows were deleted`, { rows: sum });
    }
  }

  return {
    /** Runs until `stop`; returns at once if disabled. */
    async run(): Promise<void> {
      let waitMs = firstCleanupMs;
      while (!isStopped) {
        await pause.wait(waitMs);
        if (isStopped) return;
        waitMs = cleanupIntervalMs;
        if (rests()) continue;
        try {
          await cleanUp('PUBLISHED', await daysOfRows());
          // No consumer has received these rows: 0 does not mean at once.
          if (failedRetentionDays > 0) await cleanUp('FAILED', failedRetentionDays);
        } catch (error) {
          say('cleanup', `outbox: old rows cannot be deleted; svc tries again: ${reasonOf(error)}`);
        }
      }
    },
    stop(): void {
      isStopped = true;
      pause.raise();
    },
  };
}

/** The machine's clock; the database's time if the two differ, because Kafka refuses records with a wrong timestamp. */
interface DatabaseTime {
  /** Milliseconds since the epoch. */
  now(): number;
  /** The database reported its time. `askedAtMs`: start of that query, on the monotonic clock. */
  observe(nowMs: number, askedAtMs: number): void;
}

/** More than an answer takes, and less than any configured limit. */
const toleranceMs = 10_000;
const sayMs = 60_000;

function createDatabaseTime(): DatabaseTime {
  const say = throttledLog({ intervalMs: sayMs, saysLeftOut: false });
  /** Added to the monotonic clock it gives the database's time. */
  let offsetMs: number | undefined;

  /** How far the machine's clock is ahead now. It may be set at any time. */
  const aheadMs = (): number =>
    offsetMs === undefined ? 0 : clock.now() - Math.round(clock.monotonic() + offsetMs);

  return {
    now() {
      const offMs = aheadMs();
      return clock.now() - (Math.abs(offMs) > toleranceMs ? offMs : 0);
    },
    observe(nowMs, askedAtMs) {
      const heardAtMs = clock.monotonic();
      // Too imprecise: the time was taken at any point in between.
      if (heardAtMs - askedAtMs > toleranceMs) return;
      offsetMs = nowMs - (askedAtMs + heardAtMs) / 2;
      const offMs = aheadMs();
      if (!(Math.abs(offMs) > toleranceMs)) return;
      const seconds = Math.round(Math.abs(offMs) / 1_000);
      const where = offMs > 0 ? 'ahead of' : 'behind';
      say(
        'clock',
        `outbox: the clock of this machine is ${seconds} s ${where} that of the database, whose time the events get instead: correct the wrong clock`,
      );
    },
  };
}
