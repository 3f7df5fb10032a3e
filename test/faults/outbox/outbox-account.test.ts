import assert from 'node:assert/strict';
import type { FoundRecord } from '../read-topics.ts';
import { type OutboxEvidence, settleOutbox } from './outbox-account.ts';

const record = (key: string, number: number): FoundRecord => ({
  ...{ topic: 't', partition: 0, appendedAt: 1_000 + number, eventId: `id-${key}-${number}`, key, number },
});

/** Three orders, one event delivered twice. */
const sound: OutboxEvidence = {
  orders: ['k0/1', 'k1/2', 'k0/3'],
  statuses: { PUBLISHED: 3 },
  eventIds: ['id-k0-1', 'id-k1-2', 'id-k0-3'],
  topic: [record('k0', 1), record('k1', 2), record('k0', 3), record('k0', 1)],
};

describe('accounts of the outbox faults', () => {
  const problems = (change: Partial<OutboxEvidence>): readonly string[] =>
    settleOutbox({ ...sound, ...change }).problems;

  it('finds nothing where nothing is wrong, and counts what came twice', () => {
    assert.deepEqual(settleOutbox(sound), { problems: [], duplicates: 1 });
  });

  it('finds an order without its event', () => {
    assert.match(problems({ topic: sound.topic.slice(1, 3) }).join(), /orders without an event: 1/);
  });

  it('finds an event of a transaction that was rolled back', () => {
    assert.match(problems({ orders: ['k0/1', 'k1/2'] }).join(), /events without an order: 1/);
  });

  it('finds rows that wait or have failed', () => {
    assert.match(problems({ statuses: { PUBLISHED: 2, FAILED: 1 } }).join(), /not PUBLISHED: 1/);
  });

  it('finds an event before an earlier one of its key', () => {
    const topic = [record('k0', 3), record('k0', 1), record('k1', 2)];
    assert.match(problems({ topic }).join(), /before an earlier one of their key: 1/);
  });

  it('finds a record that no row is of', () => {
    const stranger = { ...record('k0', 1), eventId: 'other' };
    assert.match(problems({ topic: [...sound.topic, stranger] }).join(), /records of no row: 1/);
  });
});
