import { createHash, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Config } from '../../config/config.ts';
import { isAlive, ownStamp, type ProcessStamp, wholeSpace } from '../../ground/claims.ts';
import { systemClock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import { isolate } from '../../observe/otel-api.ts';
import { shardCount } from '../../outbox/outbox-row.ts';
import type { OutboxStore, ShardHolder } from '../../outbox/outbox-store.ts';
import type { RelayCounters } from '../../outbox/relay/pipeline.ts';
import type { Relay } from '../../outbox/relay/relay.ts';
import type { Broker } from '../../publish/broker.ts';

/** A relay as configured, with a unique owner name. Its code is loaded here. */
export async function openRelay(
  { outbox }: Config,
  store: OutboxStore,
  broker: Broker,
  counters: RelayCounters,
  logger: Logger,
): Promise<Relay> {
  const { createRelay } = await import('../../outbox/relay/relay.ts');
  return createRelay({
    ...{ store: takingOver(store, logger), broker, logger, isolate, clock: systemClock, counters },
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

/** Limit of names in one line. */
const maxNamed = 5;

/** Takes over the leases of ended processes of this host. At the start, logs which other relays hold shards. */
function takingOver(store: OutboxStore, logger: Logger): OutboxStore {
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
