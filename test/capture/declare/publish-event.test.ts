import assert from 'node:assert/strict';
import { afterEach, describe, it } from 'mocha';
import {
  connectDeclarations,
  type Declaration,
  disconnectDeclarations,
} from '../../../src/capture/declare/declarations.ts';
import { publishEvent } from '../../../src/capture/declare/publish-event.ts';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { forgetDeclarations } from '../forget-declarations.ts';
import { assertPrecedes, forgetNotes } from '../notes.ts';
import { type RecordingSlot, recordingSlot } from '../recording-slot.ts';

describe('publishEvent', () => {
  const made: { declaration: Declaration; slot: RecordingSlot }[] = [];
  const connect = () =>
    connectDeclarations((declaration) => {
      const slot = recordingSlot({ id: declaration.name, origin: declaration.origin });
      made.push({ declaration, slot });
      return slot;
    });
  afterEach(() => {
    disconnectDeclarations();
    forgetDeclarations();
    forgetNotes();
    made.length = 0;
  });

  it('captures a function and keeps what it is', () => {
    connect();
    const createOrder = publishEvent(
      { eventType: 'ORDER_CREATED', payload: ({ args: [id], result }) => ({ id, total: result.total }) },
      function createOrder(id: string) {
        return { id, total: 3 };
      },
    );
    assert.deepEqual(createOrder('o1'), { id: 'o1', total: 3 });
    assert.equal(createOrder.name, 'createOrder');
    assert.equal(made.length, 1);
    assert.equal(made[0]?.slot.calls, 1);
    assert.equal(made[0]?.declaration.name, 'createOrder');
    assert.equal(made[0]?.declaration.origin, 'publishEvent');
    assert.deepEqual(made[0]?.declaration.parameterNames, ['id']);
  });

  it('names an anonymous function by its event type', () => {
    connect();
    publishEvent({ eventType: 'ORDER_CREATED' }, () => 1);
    publishEvent({}, () => 1);
    assert.deepEqual(
      made.map(({ declaration }) => declaration.name),
      ['ORDER_CREATED', 'anonymous'],
    );
  });

  it('does nothing while svc does not run, and goes live when it starts', () => {
    const run = publishEvent({}, function run(n: number) {
      return n;
    });
    assert.equal(run(1), 1);
    connect();
    assert.equal(run(2), 2);
    assert.deepEqual(
      made[0]?.slot.seen.map((call) => call.result),
      [2],
    );
  });

  it('goes on with a new slot after a second start', () => {
    connect();
    const run = publishEvent({}, function run() {});
    const [first] = made;
    if (first) first.slot.onCall = null;
    disconnectDeclarations();
    run();
    assert.equal(first?.slot.calls, 0);
    connect();
    run();
    assert.equal(made.length, 2, 'a later start declares again');
    assert.equal(made[1]?.slot.calls, 1);
  });

  it('gives way to a configured target', () => {
    connect();
    const configured = recordingSlot();
    const run = publishEvent(
      {},
      wrapFunction(function run() {}, configured),
    );
    run();
    assert.equal(configured.calls, 1);
    assert.equal(made[0]?.slot.calls, 0);
    assertPrecedes('src/orders.ts#create', 'run');
  });

  it('makes one event of a function that is declared twice', () => {
    connect();
    const run = publishEvent(
      { eventType: 'B' },
      publishEvent({ eventType: 'A' }, () => 1),
    );
    run();
    assert.deepEqual(
      made.map(({ slot }) => slot.calls),
      [1, 0],
    );
    assertPrecedes('A', 'B');
  });

  it('hands back what is no function', () => {
    assert.equal(publishEvent({}, 3 as never), 3);
  });

  it('gives the function back as it works, where the arguments are swapped', () => {
    const swapped = publishEvent as unknown as (fn: () => number, options: object) => () => number;
    assert.equal(swapped(() => 7, { eventType: 'ORDER_CREATED' })(), 7);
  });
});
