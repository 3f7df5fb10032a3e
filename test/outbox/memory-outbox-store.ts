import { SvcError } from '../../src/ground/errors.ts';
import { type OutboxRow, shardCount, shardOf } from '../../src/outbox/outbox-row.ts';
import type { OutboxStore, RowFilter, RowStatus, StoredRow } from '../../src/outbox/outbox-store.ts';

interface TableRow extends OutboxRow {
  id: number;
  status: RowStatus;
  retryCount: number;
  lastError: string | null;
  dueAtMs: number;
  storedAtMs: number;
  endedAtMs: number;
  /** Its transaction has not committed: nobody sees it. */
  isOpen: boolean;
}

export interface MemoryTable {
  readonly rows: Map<number, TableRow>;
  readonly leases: Map<number, { owner: string; untilMs: number }>;
  readonly owners: Map<string, number>;
  lastId: number;
}

export interface MemoryOutboxStore extends OutboxStore {
  readonly table: MemoryTable;
  /** Calls so far, by name. */
  readonly calls: Map<string, number>;
  /** While it is set, everything rejects with it. */
  failing: string | undefined;
  /** Called before each answer: a delay. */
  delay: (() => Promise<void>) | undefined;
  /** Gives the id to a row that is not committed yet. */
  begin(row: OutboxRow): number;
  commit(id: number): void;
  statusOf(eventId: string): RowStatus | undefined;
}

export function createTable(): MemoryTable {
  return { rows: new Map(), leases: new Map(), owners: new Map(), lastId: 0 };
}

/**
 * A table in memory for the tests of the relay: shards, leases, fences and waits as the port says, on the clock that is
 * given. What it leaves out: `prepare` and `close` do nothing, and there is one time for all.
 */
export function createMemoryOutboxStore(nowMs: () => number, table = createTable()): MemoryOutboxStore {
  const calls = new Map<string, number>();
  const { rows, leases, owners } = table;

  async function call(name: string): Promise<void> {
    calls.set(name, (calls.get(name) ?? 0) + 1);
    await store.delay?.();
    if (store.failing !== undefined) throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', store.failing);
  }

  function put(row: OutboxRow, isOpen: boolean): number {
    const id = ++table.lastId;
    const now = nowMs();
    rows.set(id, {
      ...row,
      ...{ id, status: 'PENDING', retryCount: 0, lastError: null, isOpen },
      ...{ dueAtMs: now, storedAtMs: now, endedAtMs: now },
    });
    return id;
  }

  const isHeld = (owner: string, row: TableRow): boolean => {
    const lease = leases.get(shardOf(row));
    return lease?.owner === owner;
  };
  const toStored = (row: TableRow): StoredRow => ({
    ...row,
    waitMs: row.dueAtMs - nowMs(),
    shard: shardOf(row),
  });
  const seen = (): TableRow[] => [...rows.values()].filter(({ isOpen }) => !isOpen);
  const count = (status: RowStatus): number => seen().filter((row) => row.status === status).length;

  const store: MemoryOutboxStore = {
    name: 'memory',
    table,
    calls,
    failing: undefined,
    delay: undefined,
    begin: (row) => put(row, true),
    commit(id) {
      (rows.get(id) as TableRow).isOpen = false;
    },
    statusOf: (eventId) => [...rows.values()].find((row) => row.eventId === eventId)?.status,
    prepare: () => call('prepare'),
    traits: async () => ({ writingViews: [], maxPacketBytes: undefined }),
    senders: async () => ({ erases: false, isRouted: false, log: 'none', relays: 0, oldestMs: null }),
    async insert(inserted) {
      await call('insert');
      for (const row of inserted) put(row, false);
    },
    async claim(owner, leaseMs, { keeps = [], leavesExpired = false, onTime } = {}) {
      await call('claim');
      onTime?.(nowMs());
      const now = nowMs();
      owners.set(owner, now + leaseMs);
      for (const [name, untilMs] of owners) if (untilMs <= now) owners.delete(name);
      for (const [shard, { owner: other, untilMs }] of leases)
        if (untilMs <= now && other !== owner && !leavesExpired) leases.delete(shard);
      const share = Math.ceil(shardCount / owners.size);
      const held = [...leases].filter(([, lease]) => lease.owner === owner).map(([shard]) => shard);
      const kept = held.filter((shard) => keeps.includes(shard));
      const own = [...kept, ...held.filter((shard) => !keeps.includes(shard))];
      for (const shard of own.splice(Math.max(share, kept.length))) leases.delete(shard);
      for (let shard = 0; shard < shardCount && own.length < share; shard++)
        if (!leases.has(shard)) own.push(shard);
      for (const shard of own) leases.set(shard, { owner, untilMs: now + leaseMs });
      return own;
    },
    async isFull(owner) {
      await call('isFull');
      const now = nowMs();
      const alive = [...owners].filter(([name, untilMs]) => name !== owner && untilMs > now).length;
      const held = [...leases.values()].filter(
        (lease) => lease.owner !== owner && lease.untilMs > now,
      ).length;
      return alive >= shardCount && held === shardCount;
    },
    async holders() {
      const held = [...leases.values()].filter(({ untilMs }) => untilMs > nowMs());
      return [...new Set(held.map(({ owner }) => owner))].map((owner) => {
        const theirs = held.filter((lease) => lease.owner === owner);
        const leaseMs = Math.max(...theirs.map(({ untilMs }) => untilMs)) - nowMs();
        return { owner, shards: theirs.length, leaseMs };
      });
    },
    async release(owner) {
      await call('release');
      owners.delete(owner);
      for (const [shard, lease] of leases) if (lease.owner === owner) leases.delete(shard);
    },
    async pending(shards, { upToId, ids }, limit) {
      const wanted = new Set(shards);
      const known = new Set(ids);
      const found = (): StoredRow[] => {
        const some: StoredRow[] = [];
        for (const row of rows.values()) {
          if (some.length >= limit) break;
          if (row.id <= upToId || known.has(row.id) || row.isOpen || row.status !== 'PENDING') continue;
          if (wanted.has(shardOf(row))) some.push(toStored(row));
        }
        return some;
      };
      // As with a real one, what is read may be old when it arrives.
      const read = found();
      await call('pending');
      return read;
    },
    async failedAggregates(shards) {
      await call('failedAggregates');
      return seen().filter((row) => row.status === 'FAILED' && shards.includes(shardOf(row)));
    },
    async ack(owner, ids, keep) {
      await call('ack');
      const done = ids.filter((id) => {
        const row = rows.get(id);
        return row !== undefined && row.status === 'PENDING' && isHeld(owner, row);
      });
      for (const id of done) {
        if (keep) Object.assign(rows.get(id) as TableRow, { status: 'PUBLISHED', endedAtMs: nowMs() });
        else rows.delete(id);
      }
      return done;
    },
    async fail(owner, failures) {
      await call('fail');
      for (const { id, retryCount, lastError, retryInMs } of failures) {
        const row = rows.get(id);
        if (row === undefined || !isHeld(owner, row)) continue;
        Object.assign(row, { retryCount, lastError, dueAtMs: nowMs() + (retryInMs ?? 0) });
        if (retryInMs === null) Object.assign(row, { status: 'FAILED', endedAtMs: nowMs() });
      }
    },
    async countPending() {
      await call('countPending');
      return count('PENDING');
    },
    async statistics() {
      await call('statistics');
      const pending = seen().filter(({ status }) => status === 'PENDING');
      const published = seen().filter(({ status }) => status === 'PUBLISHED');
      const times = published.map(({ storedAtMs, endedAtMs }) => endedAtMs - storedAtMs);
      return {
        total: seen().length,
        pending: pending.length,
        published: published.length,
        failed: count('FAILED'),
        oldestPendingMs: pending[0] === undefined ? null : nowMs() - pending[0].storedAtMs,
        avgProcessingTimeMs:
          times.length === 0 ? null : times.reduce((sum, ms) => sum + ms, 0) / times.length,
      };
    },
    async read(filter, afterId, limit) {
      await call('read');
      const found = seen().filter((row) => row.id > afterId && matches(row, filter));
      return found.slice(0, limit).map(toStored);
    },
    async retry(filter) {
      await call('retry');
      const found = seen().filter((row) => row.status === 'FAILED' && matches(row, filter));
      for (const row of found)
        Object.assign(row, { status: 'PENDING', retryCount: 0, lastError: null, dueAtMs: nowMs() });
      return found.length;
    },
    async discard(filter) {
      await call('discard');
      const found = seen().filter((row) => matches(row, filter));
      for (const { id } of found) rows.delete(id);
      return found.length;
    },
    async cleanup(status, ageMs, limit) {
      await call('cleanup');
      const old = seen().filter((row) => row.status === status && nowMs() - row.endedAtMs > ageMs);
      for (const { id } of old.slice(0, limit)) rows.delete(id);
      return Math.min(old.length, limit);
    },
    checkRows: async () => {},
    missingGuard: async () => undefined,
    inClearTo: async () => undefined,
    lastId: async () => table.lastId,
    holds: async (eventId, afterId) => seen().some((row) => row.eventId === eventId && row.id > afterId),
    partition: async () => false,
    close: async () => {},
  };
  return store;
}

function matches(row: TableRow, filter: RowFilter): boolean {
  const { ids, statuses, eventType, topic, aggregateType, aggregateId, since, before } = filter;
  if (ids !== undefined && !ids.includes(row.id)) return false;
  if (statuses !== undefined && !statuses.includes(row.status)) return false;
  if (eventType !== undefined && row.eventType !== eventType) return false;
  if (topic !== undefined && row.topic !== topic) return false;
  if (aggregateType !== undefined && row.aggregateType !== aggregateType) return false;
  if (aggregateId !== undefined && row.aggregateId !== aggregateId) return false;
  if (since !== undefined && row.storedAtMs < since) return false;
  return before === undefined || row.storedAtMs < before;
}
