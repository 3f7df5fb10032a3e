import assert from 'node:assert/strict';
import { writeFiles } from '../../e2e/support/run-app.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { svcHere } from '../support/svc-here.ts';

/** What `svc init` would write of the first function in this text. */
async function offered(text: string) {
  const cwd = temporaryFolder('payload');
  writeFiles(cwd, { 'package.json': '{ "type": "module" }', 'a.ts': text });
  const [, name] = /function (\w+)/.exec(text) ?? [];
  const init = ['init', '--dry-run', '--target', `./a.ts#${name}=ORDER_CREATED`];
  const { targets } = JSON.parse((await svcHere([...init, '--json'], { cwd })).stdout);
  const { stderr } = await svcHere(init, { cwd });
  const [, leftOut] = /fields that may be personal or secret: (.*)/.exec(stderr) ?? [];
  const [{ payload, key }] = targets;
  return { payload, key, leftOut: leftOut?.split(', ') ?? [] };
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
      null,
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
      null,
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
      null,
      [],
    ],
    ['nothing at all', 'function f() {}', '{ ok: true }', null, []],
  ] as const)
    it(title, async () => {
      assert.deepEqual(await offered(text), { payload, key, leftOut });
    });
});
