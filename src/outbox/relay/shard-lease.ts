import { createHash, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { isAlive, ownStamp, type ProcessStamp, wholeSpace } from '../../ground/claims.ts';
import { backoffMs, type Clock, systemClock } from '../../ground/clock.ts';
import type { Logger, QuietLog } from '../../observe/logger.ts';
import { shardCount } from '../outbox-row.ts';
import type { OutboxStore, ShardHolder } from '../outbox-store.ts';

/** The maximum of `setTimeout`. */
const longestMs = 2 ** 31 - 1;

/** Lets one loop sleep until something happens. Its timer is unref'd. */
export function createWakeup() {
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
export function leaseMsFor({
  sendTimeoutMs,
  leaseMs,
}: Pick<RelaySettings, 'sendTimeoutMs' | 'leaseMs'>): number {
  return leaseMs ?? Math.max(shortestLeaseMs, Math.ceil(1.5 * (sendTimeoutMs + marginMs + renewalMs)));
}

const leaseMarginMs = (leaseMs: number): number => Math.min(marginMs, leaseMs / 10);

/** How often a standby relay checks again, with jitter, so that thousands of them spread out. */
export const standbyMs = 60_000;
const standbyJitter = 0.2;

/** Backoff after a failure of the database. Doubles. */
export const firstStorePauseMs = 500;
export const longestStorePauseMs = 30_000;

interface ShardLeaseOptions {
  readonly store: Pick<OutboxStore, 'isFull' | 'claim' | 'release'>;
  readonly owner: string;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly say: QuietLog;
  readonly logger: Logger;
  /** Runs a claim while nothing is sent. So shards that it gives back have no rows in flight, as far as sends end in time. */
  readonly withoutSends: <T>(claim: () => Promise<T>, maxWaitMs: number) => Promise<T>;
  /** A claim was answered, or failed. */
  readonly onClaim: () => void;
  /** Whether to listen for notices; called with each claim. A standby relay does not listen. */
  readonly listen: (is: boolean) => void;
}

export type ShardLease = ReturnType<typeof createShardLease>;

/** The shards whose rows this relay may send, and until when. */
export function createShardLease(options: ShardLeaseOptions) {
  const { store, owner, leaseMs, clock, say, logger, withoutSends, onClaim, listen } = options;
  const renewMs = leaseMs / 3;
  const epochs = new Map<number, number>();
  const pause = createWakeup();
  let lastEpoch = 0;
  let untilMs = Number.NEGATIVE_INFINITY;
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
    const shards = await store.claim(owner, leaseMs);
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
          await pause.wait(backoffMs(failures, firstStorePauseMs, renewMs));
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
export function takingOver(store: OutboxStore, logger: Logger): OutboxStore {
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
    async claim(owner, leaseMs, onTime) {
      const shards = await store.claim(owner, leaseMs, onTime, isGone);
      // A log line only, so errors are ignored.
      if (isFirst) sayOthers(owner).catch(() => {});
      isFirst = false;
      return shards;
    },
  };
}

function heldText(others: readonly ShardHolder[]): string {
  const named = others.slice(0, maxNamed).map(({ owner, shards, leaseMs }) => {
    const until = new Date(systemClock.now() + leaseMs).toISOString().slice(11, 19);
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
export function newOwner(): string {
  const stamp = exactStamp();
  const thread = stamp === undefined ? '' : `${stamp.space}.${stamp.pid}.${stamp.task}.${stamp.began}:`;
  return `${hostname()}:${process.pid}:${thread}${randomUUID()}`;
}

/** True only if the owner was a thread of this host and container, and has certainly ended. */
export function isOwnerGone(owner: string): boolean {
  const own = exactStamp();
  const [, , space, pid, task, began] = ownerPattern.exec(owner) ?? [];
  if (own === undefined || space === undefined) return false;
  return !isAlive({ space, pid: Number(pid), task: Number(task), began: Number(began) }, own);
}

/** For people: host and process id. */
export function shownOwner(owner: string): string {
  return ownerPattern.exec(owner)?.[1] ?? /^.*?:\d+(?=:)/.exec(owner)?.[0] ?? owner.slice(0, 100);
}

function exactStamp(): ProcessStamp | undefined {
  const space = wholeSpace();
  const stamp = ownStamp();
  if (space === undefined || stamp.task === 0 || stamp.began === 0) return undefined;
  return { ...stamp, space: createHash('sha256').update(space).digest('hex').slice(0, 32) };
}
