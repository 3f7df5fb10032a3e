import { shardCount } from '../../outbox/outbox-row.ts';
import type { ShardHolder } from '../../outbox/outbox-store.ts';
import type { Dialect, Tables } from './dialect.ts';
import { command, query, type Work } from './statement.ts';

export interface Claim {
  readonly shards: readonly number[];
  /** Whether there are owners whose time has run out. */
  readonly hasDead: boolean;
}

/**
 * One owner at a time: each says that it is alive, waits for the rows of the shards, and holds them for as few statements as can
 * be, as tens of processes may wait. Nobody touches the row of another owner that is alive meanwhile: so they never wait in a circle.
 */
export function* claim(
  dialect: Dialect,
  { shards, relays }: Tables,
  owner: string,
  leaseMs: number,
  isGone: (owner: string) => boolean = () => false,
): Work<Claim> {
  yield* command(dialect.aliveUntil(relays), owner, leaseMs, leaseMs);
  const isHeld = `CASE WHEN owner IS NOT NULL AND lease_until > ${dialect.now} THEN 1 ELSE 0 END`;
  const found = yield* query(
    `SELECT shard, owner, ${isHeld} AS held, (SELECT COUNT(*) FROM ${relays}) AS known_count, ` +
      `(SELECT COUNT(*) FROM ${relays} WHERE alive_until > ${dialect.now}) AS alive_count ` +
      `FROM ${shards} ORDER BY shard${dialect.lockRows}`,
  );
  const [first] = found;
  const held = found.filter((row) => row.owner !== owner && Number(row.held) === 1);
  const gone = [...new Set(held.map((row) => String(row.owner)))].filter(isGone);
  let goneCount = 0;
  for (const one of gone) goneCount += yield* command(`DELETE FROM ${relays} WHERE owner = ?`, one);
  const aliveCount = Math.max(1, Number(first?.alive_count) - goneCount);
  const share = Math.ceil(shardCount / aliveCount);

  const all = found.map((row) => ({
    shard: Number(row.shard),
    isMine: row.owner === owner,
    isHeld: Number(row.held) === 1 && !gone.includes(String(row.owner)),
  }));
  const mine = all.filter(({ isMine }) => isMine);
  const free = all.filter((one) => !one.isMine && !one.isHeld);
  const kept = [...mine.slice(0, share), ...free.slice(0, Math.max(0, share - mine.length))]
    .map(({ shard }) => shard)
    .sort((a, b) => a - b);
  const surplus = mine.slice(share).map(({ shard }) => shard);
  if (kept.length > 0) {
    const chosen = dialect.isOneOf('shard', kept);
    yield* command(
      `UPDATE ${shards} SET owner = ?, lease_until = ${dialect.nowPlusMs} WHERE ${chosen.sql}`,
      owner,
      leaseMs,
      ...chosen.values,
    );
  }
  if (surplus.length > 0) {
    const chosen = dialect.isOneOf('shard', surplus);
    yield* command(
      `UPDATE ${shards} SET owner = NULL, lease_until = NULL WHERE ${chosen.sql}`,
      ...chosen.values,
    );
  }
  return { shards: kept, hasDead: Number(first?.known_count) > aliveCount };
}

export function* holders(dialect: Dialect, { shards }: Tables): Work<readonly ShardHolder[]> {
  const left = `${dialect.msOf('MAX(lease_until)')} - ${dialect.msOf(dialect.now)}`;
  const found = yield* query(
    `SELECT owner, COUNT(*) AS shard_count, ${left} AS left_ms FROM ${shards} WHERE owner IS NOT NULL AND lease_until > ${dialect.now} GROUP BY owner ORDER BY owner`,
  );
  return found.map(({ owner, shard_count: count, left_ms: leaseMs }) => ({
    owner: String(owner),
    shards: Number(count),
    leaseMs: Number(leaseMs),
  }));
}

export function* forgetDead(dialect: Dialect, { relays }: Tables): Work<void> {
  yield* command(`DELETE FROM ${relays} WHERE alive_until <= ${dialect.now}`);
}

export function* release({ shards, relays }: Tables, owner: string): Work<void> {
  yield* command(`DELETE FROM ${relays} WHERE owner = ?`, owner);
  yield* command(`UPDATE ${shards} SET owner = NULL, lease_until = NULL WHERE owner = ?`, owner);
}
