import { shardCount } from '../../outbox/outbox-row.ts';
import type { Dialect, Tables } from './dialect.ts';
import { command, query, type Work } from './statement.ts';

/**
 * One owner at a time: all wait for the rows of the shards first, in their order, and only then touch the table of owners. So they
 * never wait for each other in a circle.
 */
export function* claim(
  dialect: Dialect,
  { shards, relays }: Tables,
  owner: string,
  leaseMs: number,
): Work<readonly number[]> {
  const isHeld = `CASE WHEN owner IS NOT NULL AND lease_until > ${dialect.now} THEN 1 ELSE 0 END`;
  const all = (yield* query(
    `SELECT shard, owner, ${isHeld} AS held FROM ${shards} ORDER BY shard${dialect.lockRows}`,
  )).map((row) => ({ shard: Number(row.shard), owner: row.owner, isHeld: Number(row.held) === 1 }));
  yield* command(dialect.aliveUntil(relays), owner, leaseMs, leaseMs);
  yield* command(`DELETE FROM ${relays} WHERE alive_until <= ${dialect.now}`);
  const [alive] = yield* query(`SELECT COUNT(*) AS row_count FROM ${relays}`);
  const share = Math.ceil(shardCount / Math.max(1, Number(alive?.row_count)));

  const mine = all.filter((one) => one.owner === owner);
  const free = all.filter((one) => one.owner !== owner && !one.isHeld);
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
  return kept;
}

export function* release(dialect: Dialect, { shards, relays }: Tables, owner: string): Work<void> {
  yield* query(`SELECT shard FROM ${shards} ORDER BY shard${dialect.lockRows}`);
  yield* command(`UPDATE ${shards} SET owner = NULL, lease_until = NULL WHERE owner = ?`, owner);
  yield* command(`DELETE FROM ${relays} WHERE owner = ?`, owner);
}
