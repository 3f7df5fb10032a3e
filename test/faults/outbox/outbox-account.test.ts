import assert from 'node:assert/strict';
import type { FoundRecord } from '../read-topics.ts';
import { type OutboxEvidence, type OutboxRow, settleOutbox } from './outbox-account.ts';

const record = (key: string, number: number): FoundRecord => ({
  ...{ topic: 't', partition: 0, appendedAt: 1_000 + number, eventId: `id-${key}-${number}`, key, number },
});

const row = (key: string, number: number, status = 'PUBLISHED'): OutboxRow => ({
  ...{ eventId: `id-${key}-${number}`, aggregateId: key, status, order: `${key}/${number}` },
});

/** Five attempts: three orders, one of them delivered twice, one rolled back, one cut off. */
const sound: OutboxEvidence = {
  attempts: new Map([
    [1, false],
    [2, false],
    [3, false],
    [4, true],
    [5, false],
  ]),
  orders: ['k0/1', 'k1/2', 'k0/3'],
  rows: [row('k0', 1), row('k1', 2), row('k0', 3)],
  topic: [record('k0', 1), record('k1', 2), record('k0', 3), record('k0', 1)],
};

describe('accounts of the outbox faults', () => {
  const problems = (change: Partial<OutboxEvidence>): readonly string[] =>
    settleOutbox({ ...sound, ...change }).problems;
  const withRow = (...more: OutboxRow[]): readonly OutboxRow[] => [...sound.rows, ...more];

  it('finds nothing where nothing is wrong, and counts what was rolled back, cut off, and came twice', () => {
    const expected = { problems: [], rolledBack: 1, cutOff: 1, failed: 0, duplicates: 1 };
    assert.deepEqual(settleOutbox(sound), expected);
  });

  it('finds an order without its row and its event', () => {
    assert.deepEqual(problems({ rows: sound.rows.slice(1), topic: sound.topic.slice(1, 3) }), [
      'orders without a row: 1 (k0/1)',
      'orders without an event: 1 (k0/1)',
    ]);
  });

  it('finds an order without its row where another one has two', () => {
    const rows = [row('k0', 1), row('k1', 2), { ...row('k1', 2), eventId: 'id-k0-3' }];
    assert.deepEqual(problems({ rows }), [
      'orders without a row: 1 (k0/3)',
      'orders with several rows: 1 (k1/2)',
      'records that are not those of their row: 1 (k0/3)',
    ]);
  });

  it('finds the event of an order that is nowhere in the topic, though its row says PUBLISHED', () => {
    assert.deepEqual(problems({ topic: sound.topic.slice(1, 3) }), ['orders without an event: 1 (k0/1)']);
  });

  it('finds row and event of a transaction that was rolled back, or cut off', () => {
    for (const [key, number] of [
      ['k0', 4],
      ['k1', 5],
    ] as const)
      assert.deepEqual(
        problems({ rows: withRow(row(key, number)), topic: [...sound.topic, record(key, number)] }),
        [`rows without an order: 1 (${key}/${number})`, `events without an order: 1 (${key}/${number})`],
      );
  });

  it('finds an event of a transaction that was rolled back, with no row left', () => {
    assert.deepEqual(problems({ topic: [...sound.topic, record('k0', 4)] }), [
      'events without an order: 1 (k0/4)',
      'records that are not those of their row: 1 (k0/4)',
    ]);
  });

  it('finds orders that cannot be: rolled back, or of no attempt', () => {
    const orders = [...sound.orders, 'k0/4', 'k0/9'];
    const rows = withRow(row('k0', 4), row('k0', 9));
    const topic = [...sound.topic, record('k0', 4), record('k0', 9)];
    assert.deepEqual(problems({ orders, rows, topic }), [
      'orders that nobody tried: 1 (k0/9)',
      'orders that were rolled back: 1 (k0/4)',
    ]);
  });

  it('finds rows that wait or have failed', () => {
    const rows = [row('k0', 1, 'FAILED'), row('k1', 2, 'PENDING'), row('k0', 3)];
    assert.deepEqual(problems({ rows }), ['rows that are not PUBLISHED: 2 (k0/1 FAILED, k1/2 PENDING)']);
    assert.equal(settleOutbox({ ...sound, rows }).failed, 1);
  });

  it('finds an id that two rows have, and a row of another aggregate', () => {
    const rows = [row('k0', 1), { ...row('k1', 2), eventId: 'id-k0-3', aggregateId: 'k9' }, row('k0', 3)];
    assert.deepEqual(problems({ rows, topic: [record('k0', 1), record('k0', 3)] }), [
      'event ids of several rows: 1 (id-k0-3)',
      'rows of another aggregate: 1 (k1/2)',
      'orders without an event: 1 (k1/2)',
    ]);
  });

  it('finds an event before an earlier one of its key', () => {
    const topic = [record('k0', 3), record('k0', 1), record('k1', 2)];
    assert.deepEqual(problems({ topic }), ['events before an earlier one of their key: 1 (k0/1)']);
  });

  it('finds a key in two partitions, where it has no order', () => {
    const topic = [record('k0', 1), { ...record('k0', 3), partition: 1 }, record('k1', 2)];
    assert.deepEqual(problems({ topic }), ['events before an earlier one of their key: 1 (k0/3)']);
  });

  it('finds a record that no row is of', () => {
    const stranger = { ...record('k0', 1), eventId: 'other' };
    assert.deepEqual(problems({ topic: [...sound.topic, stranger] }), [
      'records that are not those of their row: 1 (k0/1)',
    ]);
  });
});
