import type { FoundRecord } from '../read-topics.ts';

/** What is in the business table, in the outbox and in the topic when all is quiet. */
export interface OutboxEvidence {
  /** `k7/1234`, of the orders that have committed. */
  readonly orders: readonly string[];
  /** Rows of the outbox by their status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Event ids of the outbox. */
  readonly eventIds: readonly string[];
  readonly topic: readonly FoundRecord[];
}

export interface OutboxAccount {
  /** What is not as it must be; empty when all is well. */
  readonly problems: readonly string[];
  readonly duplicates: number;
}

/** Each committed order has its event, no other has one, all are delivered, and those of a key in the order of their commits. */
export function settleOutbox({ orders, statuses, eventIds, topic }: OutboxEvidence): OutboxAccount {
  const problems: string[] = [];
  const expect = (what: string, found: number, expected: number): void => {
    if (found !== expected) problems.push(`${what}: ${found}, not ${expected}`);
  };
  const committed = new Set(orders);
  const delivered = new Map<string, FoundRecord>();
  for (const record of topic) {
    const name = `${record.key}/${record.number}`;
    if (!delivered.has(name)) delivered.set(name, record);
  }
  expect('rows of the outbox', eventIds.length, orders.length);
  expect('rows that are not PUBLISHED', eventIds.length - (statuses.PUBLISHED ?? 0), 0);
  expect('orders without an event', orders.filter((order) => !delivered.has(order)).length, 0);
  expect('events without an order', [...delivered.keys()].filter((name) => !committed.has(name)).length, 0);
  const ids = new Set(eventIds);
  expect('records of no row', topic.filter(({ eventId }) => !ids.has(eventId)).length, 0);
  const last = new Map<string, number>();
  let inversions = 0;
  for (const { key, number } of delivered.values()) {
    if (number < (last.get(key) ?? 0)) inversions++;
    last.set(key, Math.max(number, last.get(key) ?? 0));
  }
  expect('events before an earlier one of their key', inversions, 0);
  return { problems, duplicates: topic.length - delivered.size };
}
