import assert from 'node:assert/strict';
import { createSendSlots } from '../../src/publish/broker.ts';
import { bytesOf, createTickBudget, toRecord } from '../../src/publish/main/queue.ts';
import { createMemory } from '../../src/publish/sender/sender.ts';
import { event } from './fake-cluster.ts';

describe('limits', () => {
  it('memory takes up to its number of events', () => {
    const memory = createMemory({ maxEvents: 2, maxBytes: 1_000 });
    assert.deepEqual([memory.reserve(1), memory.reserve(1), memory.reserve(1)], [true, true, false]);
    memory.release(1);
    assert.deepEqual([memory.reserve(1), memory.events, memory.overflows], [true, 2, 1]);
  });

  it('memory takes up to its number of bytes', () => {
    const memory = createMemory({ maxEvents: 10, maxBytes: 100 });
    assert.deepEqual([memory.reserve(60), memory.reserve(41), memory.reserve(40)], [true, false, true]);
    memory.release(60);
    assert.deepEqual([memory.bytes, memory.events, memory.overflows], [40, 1, 1]);
  });

  it('slots run so many at once, the others in their order', () => {
    const slots = createSendSlots(2);
    const ran: number[] = [];
    for (const id of [1, 2, 3, 4]) slots.acquire(() => ran.push(id));
    assert.deepEqual(ran, [1, 2]);
    slots.release();
    assert.deepEqual(ran, [1, 2, 3]);
    slots.release();
    slots.release();
    slots.release();
    slots.acquire(() => ran.push(5));
    slots.acquire(() => ran.push(6));
    slots.acquire(() => ran.push(7));
    assert.deepEqual(ran, [1, 2, 3, 4, 5, 6]);
  });

  it('a turn is full beyond its bytes, with what each event takes on its way, until it is over', async () => {
    const turn = createTickBudget(() => 3 * 8 * 1024 + 300);
    for (let number = 0; number < 3; number++) turn.add(100);
    assert.equal(turn.isFull, false);
    turn.add(0);
    assert.equal(turn.isFull, true);
    await Promise.resolve();
    assert.equal(turn.isFull, true);
    await new Promise(setImmediate);
    assert.equal(turn.isFull, false);
    turn.add(100);
    assert.equal(turn.isFull, false);
  });

  it('slots pass by any number of those who have nothing to do any more', () => {
    const slots = createSendSlots(1);
    const ran: string[] = [];
    slots.acquire(() => ran.push('first'));
    for (let id = 0; id < 10_000; id++) slots.acquire(() => slots.release());
    slots.acquire(() => ran.push('last'));
    slots.acquire(() => ran.push('waits'));
    slots.release();
    assert.deepEqual(ran, ['first', 'last']);
    slots.release();
    assert.deepEqual(ran, ['first', 'last', 'waits']);
  });

  it('who asks for a slot while they are given comes behind those who wait', () => {
    const slots = createSendSlots(1);
    const ran: string[] = [];
    slots.acquire(() => {});
    slots.acquire(() => {
      slots.release();
      slots.acquire(() => ran.push('second'));
    });
    slots.acquire(() => {
      ran.push('first');
      slots.release();
    });
    slots.release();
    assert.deepEqual(ran, ['first', 'second']);
  });

  it('the size of an event is that of its record and a little more', () => {
    const one = event('1', { after: 'é漢😀"}', key: 'kë', headers: { eventId: '1', traceparent: 'ü' } });
    const { value, key, headers } = toRecord(one, 0);
    const content =
      value.length +
      Buffer.byteLength(key as string) +
      Buffer.byteLength(Object.entries(headers).flat().join(''));
    const size = bytesOf(one);
    assert.ok(size > content && size < content + 64, `${size} for ${content}`);
  });
});
