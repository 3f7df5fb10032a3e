import type { FoundRecord } from '../read-topics.ts';

/** A row of the outbox, with the order that its payload is of: `k7/1234`. */
export interface OutboxRow {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly status: string;
  readonly order: string;
}

/** What is in the business tables, in the outbox and in the topic when all is quiet. */
export interface OutboxEvidence {
  /** Numbers that the application has begun a transaction with, each with whether it was to roll it back. */
  readonly attempts: ReadonlyMap<number, boolean>;
  /** `k7/1234`, of the orders that have committed. */
  readonly orders: readonly string[];
  readonly rows: readonly OutboxRow[];
  readonly topic: readonly FoundRecord[];
}

export interface OutboxAccount {
  /** What is not as it must be; empty when all is well. */
  readonly problems: readonly string[];
  /** Transactions that the application has rolled back, or would have. */
  readonly rolledBack: number;
  /** Transactions that the fault has kept from their COMMIT. */
  readonly cutOff: number;
  readonly failed: number;
  readonly duplicates: number;
}

/**
 * Table, outbox and topic, compared row by row and in both directions: each committed order has one row and its event, nothing
 * else has one, all are delivered, and those of a key in the order of their commits.
 */
export function settleOutbox({ attempts, orders, rows, topic }: OutboxEvidence): OutboxAccount {
  const problems: string[] = [];
  const expectNone = (what: string, found: readonly string[]): void => {
    if (found.length > 0) problems.push(`${what}: ${found.length} (${found.slice(0, 3).join(', ')})`);
  };
  const first = new Map<string, FoundRecord>();
  for (const record of topic) if (!first.has(orderOf(record))) first.set(orderOf(record), record);
  const committed = new Set(orders);
  const stored = new Map(rows.map((row) => [row.eventId, row]));
  const storedOrders = new Set(rows.map(({ order }) => order));
  const numbers = new Set(orders.map(numberOf));
  const rolledBack = [...attempts].filter(([, rollsBack]) => rollsBack).map(([number]) => number);

  expectNone(
    'orders that nobody tried',
    orders.filter((order) => !attempts.has(numberOf(order))),
  );
  expectNone(
    'orders that were rolled back',
    orders.filter((order) => attempts.get(numberOf(order)) === true),
  );
  expectNone(
    'orders without a row',
    orders.filter((order) => !storedOrders.has(order)),
  );
  expectNone(
    'rows without an order',
    rows.map(({ order }) => order).filter((order) => !committed.has(order)),
  );
  expectNone('orders with several rows', repeated(rows.map(({ order }) => order)));
  expectNone('event ids of several rows', repeated(rows.map(({ eventId }) => eventId)));
  expectNone(
    'rows of another aggregate',
    rows.filter(({ order, aggregateId }) => !order.startsWith(`${aggregateId}/`)).map(({ order }) => order),
  );
  expectNone(
    'rows that are not PUBLISHED',
    rows.filter(({ status }) => status !== 'PUBLISHED').map(({ order, status }) => `${order} ${status}`),
  );
  expectNone(
    'orders without an event',
    orders.filter((order) => !first.has(order)),
  );
  expectNone(
    'events without an order',
    [...first.keys()].filter((order) => !committed.has(order)),
  );
  expectNone(
    'records that are not those of their row',
    topic.filter((record) => stored.get(record.eventId)?.order !== orderOf(record)).map(orderOf),
  );
  expectNone('events before an earlier one of their key', inversions([...first.values()]));
  return {
    ...{ problems, rolledBack: rolledBack.length, duplicates: topic.length - first.size },
    cutOff: [...attempts].filter(([number, rollsBack]) => !rollsBack && !numbers.has(number)).length,
    failed: rows.filter(({ status }) => status === 'FAILED').length,
  };
}

const orderOf = ({ key, number }: FoundRecord): string => `${key}/${number}`;

const numberOf = (order: string): number => Number(order.slice(order.indexOf('/') + 1));

function repeated(all: readonly string[]): string[] {
  const seen = new Set<string>();
  return all.filter((one) => seen.size === seen.add(one).size);
}

/** Those that stand behind a later one of their key, and those that are in another partition than its first. */
function inversions(records: readonly FoundRecord[]): string[] {
  const last = new Map<string, FoundRecord>();
  return records
    .filter((record) => {
      const before = last.get(record.key);
      const isBehind = before !== undefined && record.number < before.number;
      if (!isBehind) last.set(record.key, record);
      return isBehind || (before !== undefined && record.partition !== before.partition);
    })
    .map(orderOf);
}
