import assert from 'node:assert/strict';
import { ownFunctions } from '../../../src/capture/source/find.ts';
import { offerOf } from '../../../src/cli/init.ts';

function offered(text: string, file = 'a.ts') {
  const { program, functions } = ownFunctions(file, text);
  const [first] = functions;
  assert.ok(program && first, 'no function found');
  return offerOf(first.node, program, 'ORDER');
}

describe('the payload that svc init offers', () => {
  for (const [title, text, payload, key, leftOut] of [
    [
      'types of the file, without what is personal, and without objects',
      `interface In { product: string; email: string; lines: string[] } interface Out { id: number; state: 'a' | 'b' }
       export async function createOrder(order: In): Promise<Out> { return db.insert(order) }`,
      '{ orderId: #result.id, product: #order.product, state: #result.state }',
      '#result.id',
      ['email'],
    ],
    [
      'what the function reads, methods apart',
      'function f(order) { for (const l of order.lines.map(String)) log(l); return order.customer.id + order.total }',
      '{ customerId: #order.customer.id, total: #order.total }',
      undefined,
      [],
    ],
    [
      'a destructured parameter by its position, and a result in the text',
      'async function f({ sku, pin }) { const saved = { id: 1, rows: [] }; return saved }',
      '{ orderId: #result.id, sku: #p0.sku }',
      '#result.id',
      ['pin'],
    ],
    [
      'the handler of a route',
      'async function f(req, res) { const { amount } = req.body; res.json(req.params.id) }',
      '{ amount: #req.body.amount, orderId: #req.params.id }',
      '#req.params.id',
      [],
    ],
    ['plain values', 'function f(id: string, tx) { }', '{ orderId: #id }', '#id', []],
    [
      'an object of which nothing is known',
      'function f(input) { return save(input) }',
      '{ orderId: #result?.id }',
      undefined,
      [],
    ],
    [
      'JavaScript, where a parameter may be an object of any fields, but for an id',
      'async function f(payment, customerId) { rows.push(payment); return { id: rows.length, ...payment } }',
      '{ orderId: #result.id, customerId: #customerId }',
      '#result.id',
      [],
    ],
    [
      'without fields that no expression can name',
      "function f(order) { return { id: 1, 'line-count': order.lines, größe: 1 } }",
      '{ orderId: #result.id, lines: #order.lines }',
      '#result.id',
      ['line-count', 'größe'],
    ],
    [
      'a parameter that is called as svc calls the result',
      'function f(result: string) {}',
      '{ result: #p0 }',
      undefined,
      [],
    ],
    ['nothing at all', 'function f() {}', '{ ok: true }', undefined, []],
  ] as const)
    it(title, () => {
      assert.deepEqual(offered(text), { payload, key, leftOut });
    });
});
