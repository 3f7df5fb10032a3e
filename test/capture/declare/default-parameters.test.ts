import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from '../../../src/capture/inspect.ts';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { type PlanFields, planOf } from '../plan-of.ts';
import { recordingSlot } from '../recording-slot.ts';

describe('parameters with a default', () => {
  let folder: string;
  before(() => {
    folder = temporaryFolder('defaults');
    writeFileSync(
      join(folder, 'orders.ts'),
      `export function order(this: void, id: string, quantity = 1, { note } = { note: '' }, ...tags: string[]) { return id + quantity + note + tags; }
       export class Shop { constructor(private rate = 2) {} sell(id: string, price = this.rate) { return id + price; } }`,
    );
  });

  const notes = (functionPath: string, ...expressions: string[]) => {
    const makePlanOf = (names: readonly string[] | undefined) => planOf({ payload: expressions[0] }, names);
    const target = { id: 'a', module: './orders.ts', functionPath, expressions, makePlan: makePlanOf };
    const [report] = inspect([target], { baseDir: folder });
    assert.deepEqual([report?.state, report?.reason], ['found', undefined]);
    return report?.notes;
  };
  const one = (name: string) => [
    `parameter ${name} has a default, which expressions do not see: undefined if the caller omits it`,
  ];

  it('are named by the check where an expression uses them, by whatever name', () => {
    for (const expression of ['#quantity', '{id: #id, n: quantity}', '#p1', 'a1 + 1', '#args[1]'])
      assert.deepEqual(notes('order', expression), one('quantity'), expression);
    assert.deepEqual(notes('order', '#p2.note'), one('p2'));
    assert.deepEqual(notes('Shop.prototype.sell', '#price'), one('price'));
    assert.deepEqual(notes('order', '#id', '#quantity', '#p2'), [
      'parameters quantity, p2 have defaults, which expressions do not see: undefined if the caller omits it',
    ]);
  });

  it('are not named where none does', () => {
    for (const expression of ['#id', '#result.quantity', '#p0', '#p3', '#args[0]', '#args'])
      assert.deepEqual(notes('order', expression), [], expression);
  });

  it('are what the documentation says in a call without them', () => {
    const of = (fields: PlanFields) => {
      const plan = planOf(fields, ['id', 'quantity']);
      const slot = recordingSlot(plan);
      wrapFunction((id: string, quantity = 1) => id + quantity, slot)('o-7');
      const [call] = slot.seen;
      assert.ok(call);
      try {
        return JSON.stringify(fields.key === undefined ? plan.payload(call) : plan.key?.(call));
      } catch {
        return 'refused';
      }
    };
    assert.equal(of({ payload: '{id: #id, quantity: #quantity}' }), '{"id":"o-7"}');
    assert.equal(of({ payload: '{quantity: #quantity ?? 1}' }), '{"quantity":1}');
    assert.equal(of({ payload: '#quantity' }), 'refused');
    assert.equal(of({ key: '#quantity' }), 'refused');
    assert.equal(of({ payloadIndex: 1 }), 'refused');
    assert.equal(of({ payload: '{a: #args[1]}' }), 'refused');
  });
});
