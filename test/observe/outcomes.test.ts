import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  createLedger,
  type Ledger,
  type Outcome,
  outcomes,
  readRow,
  type SendFailureKind,
  type SharedRow,
} from '../../src/observe/outcomes.ts';

const otherEventType = 'other';
const maxEventTypes = 1000;

const sumOfOutcomes = (counts: Readonly<Record<Outcome, number>>): number =>
  outcomes.reduce((sum, outcome) => sum + counts[outcome], 0);
const rowOf = (ledger: Ledger, eventType: string) =>
  [...ledger.rows()].find((row) => row.attributes.eventType === eventType);

describe('outcomes', () => {
  for (const outcome of outcomes) {
    it(`counts ${outcome} of its event type, and nothing else`, () => {
      const ledger = createLedger();
      ledger.declare(['OTHER_TYPE']);
      assert.equal(ledger.open('ORDER_CREATED').close(outcome), true);
      const beside = { inFlight: 0, retries: 0, dlqFailures: 0, relayed: 0, gaveUp: 0 };
      const none = Object.fromEntries(outcomes.map((each) => [each, 0]));
      const expected = { ...none, [outcome]: 1 };
      const { brokerErrors, ...counts } = ledger.snapshot();
      assert.deepEqual(counts, { ...expected, ...beside, calls: 1 });
      assert.equal(rowOf(ledger, 'ORDER_CREATED')?.[outcome], 1);
      assert.equal(rowOf(ledger, 'OTHER_TYPE')?.[outcome], 0);
    });
  }

  it('counts the same event once, whatever its second end is', () => {
    const ledger = createLedger();
    const entry = ledger.open('ORDER_CREATED');
    assert.equal(entry.close('dlq'), true);
    for (const outcome of outcomes) assert.equal(entry.close(outcome), false);
    const { calls, dlq, inFlight } = ledger.snapshot();
    assert.deepEqual({ calls, dlq, inFlight }, { calls: 1, dlq: 1, inFlight: 0 });
    assert.equal(sumOfOutcomes(ledger.snapshot()), 1);
  });

  it('keeps calls = outcomes + in flight, in any order of opening and closing', () => {
    const step = fc.oneof(
      fc.record({ open: fc.constantFrom('A', 'B', 'C') }),
      fc.record({ close: fc.nat(), outcome: fc.constantFrom(...outcomes) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const ledger = createLedger();
        const entries: ReturnType<Ledger['open']>[] = [];
        const open = new Set<ReturnType<Ledger['open']>>();
        for (const one of steps) {
          if ('open' in one) {
            const entry = ledger.open(one.open);
            entries.push(entry);
            open.add(entry);
          } else if (entries.length > 0) {
            const entry = entries[one.close % entries.length] as ReturnType<Ledger['open']>;
            assert.equal(entry.close(one.outcome), open.delete(entry));
          }
        }
        const counts = ledger.snapshot();
        assert.equal(counts.calls, entries.length);
        assert.equal(counts.inFlight, open.size);
        assert.equal(counts.calls, sumOfOutcomes(counts) + counts.inFlight);
        for (const row of ledger.rows()) assert.equal(row.calls, sumOfOutcomes(row) + row.inFlight);
      }),
    );
  });

  it('counts retries, failures of the dead letter topic and broker errors beside the outcomes', () => {
    const ledger = createLedger();
    const kinds: SendFailureKind[] = ['retriable', 'fatal', 'too_large', 'unknown_outcome', 'fatal'];
    for (const kind of kinds) ledger.brokerFailed(kind);
    ledger.retried('A');
    ledger.retried('A');
    ledger.dlqFailed('A');
    const { retries, dlqFailures, calls, brokerErrors } = ledger.snapshot();
    assert.deepEqual({ retries, dlqFailures, calls }, { retries: 2, dlqFailures: 1, calls: 0 });
    assert.deepEqual(brokerErrors, { retriable: 1, fatal: 2, too_large: 1, unknown_outcome: 1 });
  });

  it('counts what a relay sends and gives up beside the calls, which may have been elsewhere', () => {
    const ledger = createLedger();
    ledger.open('A').close('outbox');
    ledger.relayed('A');
    ledger.relayed('B');
    ledger.gaveUp('B');
    const { calls, outbox, published, relayed, gaveUp, inFlight } = ledger.snapshot();
    assert.deepEqual(
      { calls, outbox, published, inFlight },
      { calls: 1, outbox: 1, published: 0, inFlight: 0 },
    );
    assert.deepEqual({ relayed, gaveUp }, { relayed: 2, gaveUp: 1 });
  });

  it('of a worker thread is read by others, and gives an outcome to what its thread has left', () => {
    const shared: SharedRow[] = [];
    const ledger = createLedger((row) => void shared.push(row));
    for (let call = 0; call < 5; call++) ledger.open('A');
    ledger.open('A').close('published');
    const row = structuredClone(shared[0]) as SharedRow;
    assert.equal(rowOf(ledger, 'A')?.inFlight, 5);
    ledger.saved(2);
    assert.equal(readRow(row).end('lost'), 3);
    const { calls, published, backup, lost, inFlight } = ledger.snapshot();
    assert.deepEqual(
      { calls, published, backup, lost, inFlight },
      { calls: 6, published: 1, backup: 2, lost: 3, inFlight: 0 },
    );
    assert.equal(readRow(row).end('lost'), 0);
  });

  it('gives declared event types a row of zeros', () => {
    const ledger = createLedger();
    ledger.declare(['A', 'B', 'A']);
    assert.deepEqual(
      [...ledger.rows()].map((row) => [row.attributes.eventType, row.calls]),
      [
        ['A', 0],
        ['B', 0],
      ],
    );
  });

  it('takes names that objects have themselves', () => {
    const ledger = createLedger();
    ledger.open('__proto__').close('published');
    ledger.open('constructor').close('published');
    assert.equal(ledger.snapshot().published, 2);
  });

  it(`tells ${maxEventTypes} event types apart and counts the rest as "${otherEventType}"`, () => {
    const ledger = createLedger();
    for (let index = 0; index < maxEventTypes; index++) ledger.open(`T${index}`).close('published');
    assert.equal(rowOf(ledger, `T${maxEventTypes - 1}`)?.published, 1);
    assert.equal(rowOf(ledger, otherEventType), undefined);

    ledger.open(`T${maxEventTypes}`).close('published');
    ledger.open(`T${maxEventTypes + 1}`).close('lost');
    ledger.open('T0').close('published');
    const other = rowOf(ledger, otherEventType);
    assert.deepEqual([other?.calls, other?.published, other?.lost], [2, 1, 1]);
    assert.equal(rowOf(ledger, `T${maxEventTypes}`), undefined);
    assert.equal(rowOf(ledger, 'T0')?.published, 2);
    assert.equal([...ledger.rows()].length, maxEventTypes + 1);
    assert.equal(ledger.snapshot().calls, maxEventTypes + 3);
  });
});
