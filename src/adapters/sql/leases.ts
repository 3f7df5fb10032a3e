import { spreadHash } from '../../ground/claims/spread-hash.ts';
import { shardCount } from '../../outbox/outbox-row.ts';
import type { ShardHolder } from '../../outbox/outbox-store.ts';
import type { Dialect, Tables } from './dialect.ts';
import { command, query, type Work } from './statement.ts';

export interface Claim {
  readonly shards: readonly number[];
  /** Whether there are owners whose time has run out. */
  readonly hasDead: boolean;
  /** Of the database's clock, since the epoch. */
  readonly nowMs: number;
}

interface Shards extends Omit<Claim, 'shards'> {
  /** Those to hold: what is held already first. */
  readonly wanted: readonly number[];
  readonly surplus: readonly number[];
  /** Who holds what this one does not. */
  readonly holders: readonly string[];
}

/** Others claim at the same time: so often is looked again for shards that are free. */
const mostTries = 5;

/**
 * Each statement is a transaction of its own: whoever stands still in between, or is cut off, keeps no lock that others wait
 * for. What was free when it was looked for may be somebody else's by now, so that it is looked at again while it is taken.
 */
export function* claim(
  dialect: Dialect,
  tables: Tables,
  owner: string,
  leaseMs: number,
  isGone: (owner: string) => boolean = () => false,
): Work<Claim> {
  yield* command(dialect.aliveUntil(tables.relays), owner, leaseMs, leaseMs);
  let found = yield* look(dialect, tables, owner);
  const gone = found.holders.filter(isGone);
  for (const one of gone) yield* release(tables, one);
  if (gone.length > 0) found = yield* look(dialect, tables, owner);
  let { wanted, surplus, hasDead, nowMs } = found;
  for (let tries = 1; !(yield* take(dialect, tables, owner, leaseMs, wanted)); tries++) {
    const before = new Set(wanted);
    ({ wanted, surplus, hasDead, nowMs } = yield* look(dialect, tables, owner, tries < mostTries));
    if (tries === mostTries) {
      // What it did get.
      wanted = wanted.filter((shard) => before.has(shard));
      break;
    }
  }
  if (surplus.length > 0) {
    const chosen = dialect.isOneOf('shard', surplus);
    yield* command(
      `UPDATE ${tables.shards} SET owner = NULL, lease_until = NULL WHERE ${chosen.sql} AND owner = ?`,
      ...chosen.values,
      owner,
    );
  }
  return { shards: wanted.toSorted((a, b) => a - b), hasDead, nowMs };
}

function* look(dialect: Dialect, { shards, relays }: Tables, owner: string, takesMore = true): Work<Shards> {
  const found = yield* query(
    `SELECT shard, owner, ${dialect.msOf(dialect.now)} AS now_ms, CASE WHEN ${heldBySomebody(dialect)} THEN 1 ELSE 0 END AS held, ` +
      `(SELECT COUNT(*) FROM ${relays}) AS known_count, ` +
      `(SELECT COUNT(*) FROM ${relays} WHERE alive_until > ${dialect.now}) AS alive_count ` +
      `FROM ${shards} ORDER BY shard`,
  );
  const [first] = found;
  const aliveCount = Math.max(1, Number(first?.alive_count));
  const share = Math.ceil(shardCount / aliveCount);
  const mine = found.filter((row) => row.owner === owner).map(({ shard }) => Number(shard));
  const others = found.filter((row) => row.owner !== owner);
  const free = others.filter(({ held }) => Number(held) === 0).map(({ shard }) => Number(shard));
  const held = others.filter((row) => Number(row.held) === 1);
  // Several that start together begin in different places.
  const from = free.length === 0 ? 0 : spreadHash(owner) % free.length;
  const more = takesMore ? Math.max(0, share - mine.length) : 0;
  return {
    wanted: [...mine.slice(0, share), ...[...free.slice(from), ...free.slice(0, from)].slice(0, more)],
    surplus: mine.slice(share),
    hasDead: Number(first?.known_count) > aliveCount,
    holders: [...new Set(held.map((row) => String(row.owner)))],
    nowMs: Math.round(Number(first?.now_ms)),
  };
}

/** Returns whether they are all its own now. */
function* take(
  dialect: Dialect,
  { shards }: Tables,
  owner: string,
  leaseMs: number,
  wanted: readonly number[],
): Work<boolean> {
  if (wanted.length === 0) return true;
  const chosen = dialect.isOneOf('shard', wanted);
  const count = yield* command(
    `UPDATE ${shards} SET owner = ?, lease_until = ${dialect.nowPlusMs} WHERE ${chosen.sql} AND (owner = ? OR NOT (${heldBySomebody(dialect)}))`,
    owner,
    leaseMs,
    ...chosen.values,
    owner,
  );
  return count === wanted.length;
}

/** Never null, whatever is: what is compared with NULL would be neither held nor free. */
const heldBySomebody = ({ now }: Dialect): string =>
  `owner IS NOT NULL AND lease_until IS NOT NULL AND lease_until > ${now}`;

/** Whether the others that are alive are as many as there are shards, and have all of them. */
export function* isFull(dialect: Dialect, { shards, relays }: Tables, owner: string): Work<boolean> {
  const [found] = yield* query(
    `SELECT (SELECT COUNT(*) FROM ${relays} WHERE alive_until > ${dialect.now} AND owner <> ?) AS alive, ` +
      `(SELECT COUNT(*) FROM ${shards} WHERE ${heldBySomebody(dialect)} AND owner <> ?) AS held`,
    owner,
    owner,
  );
  return Number(found?.alive) >= shardCount && Number(found?.held) >= shardCount;
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
