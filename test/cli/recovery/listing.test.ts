import assert from 'node:assert/strict';
import { createListing } from '../../../src/cli/recovery.ts';
import type { StoredEvent } from '../../../src/start/commands/recovery.ts';

const maxSorted = 100_000;

function stored(eventId: string, storedAt: number): StoredEvent {
  const value = Buffer.from('{}');
  return {
    place: 'p',
    eventId,
    eventType: 'T',
    topic: 't',
    key: null,
    headers: {},
    value,
    storedAt,
    reason: 'R',
  };
}

/** The ids in the order in which they are written. */
function idsOf(isSorted: boolean, events: readonly StoredEvent[]): string[] {
  let text = '';
  const listing = createListing({ isJson: false, isSorted }, (more) => {
    text += more;
  });
  for (const event of events) listing.add(event);
  assert.deepEqual(listing.end(), []);
  return text
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => line.split(/ {2,}/)[1] as string);
}

describe('a list of events', () => {
  const events = [stored('a', 30), stored('b', 10), stored('c', 20), stored('d', 10)];

  it('of a topic is in the order of time, over all partitions', () => {
    assert.deepEqual(idsOf(true, events), ['b', 'd', 'c', 'a']);
    assert.deepEqual(idsOf(false, events), ['a', 'b', 'c', 'd']);
    const listing = createListing({ isJson: true, isSorted: true }, assert.fail);
    for (const event of events) listing.add(event);
    assert.deepEqual(
      listing.end().map((event) => (event as StoredEvent).eventId),
      ['b', 'd', 'c', 'a'],
    );
  });

  it('holds so many and no more to put them in order', () => {
    const many = Array.from({ length: maxSorted + 1 }, (_, index) => stored(String(index), -index));
    const ids = idsOf(true, many);
    assert.deepEqual([ids[0], ids.at(-2), ids.at(-1)], [String(maxSorted - 1), '0', String(maxSorted)]);
  });
});
