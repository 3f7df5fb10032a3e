import type { Form } from './form.ts';

const kind = 'typescript';

/** TypeScript that Node runs itself, by removing the types. */
export const strippedForms: readonly Form[] = [
  {
    id: 'stripped-esm',
    title: "Node's own type stripping, ES module (`.ts`, `.mts`)",
    kind,
    files: {
      'orders.ts': `import type { Order } from './order.mts';
interface Row {
  id: number;
}
export async function createOrder(order: Order): Promise<Row> {
  here();
  return { id: price(order.id) };
}
function price(id: number): number { here(); return (id as number) * 10; }
export class OrderService<T = unknown> {
  private readonly rows: T[] = [];
  public async add(row: T, note?: string): Promise<number> { here(); return this.rows.push(row!); }
  remove = async (id: number): Promise<number> => { here(); return id satisfies number; };
}
export const createRepository = <T,>(prefix: T) => ({ insert(id: number) { here(); return \`\${prefix}\${id}\`; } });
`,
      'order.mts': 'export type Order = { id: number };\nexport function check(order: Order): boolean { here(); return order.id > 0; }\n',
    },
    targets: [
      { function: 'createOrder', payload: '#order' },
      { function: 'price' },
      { function: 'OrderService.prototype.add' },
      { function: 'OrderService.prototype.remove' },
      { function: 'createRepository().insert' },
      { module: './order.mts', function: 'check' },
    ],
    call: `import { createOrder, createRepository, OrderService } from './orders.ts';
import { check } from './order.mts';
export default async () => {
  const service = new OrderService();
  return [await createOrder({ id: 1 }), await service.add(2), await service.remove(3), createRepository('r').insert(4), check({ id: 5 })];
};`,
    returns: [{ id: 10 }, 1, 3, 'r4', true],
    events: {
      createOrder: 1,
      price: 1,
      'OrderService.prototype.add': 1,
      'OrderService.prototype.remove': 1,
      'createRepository().insert': 1,
      check: 1,
    },
    payloads: { createOrder: [{ id: 1 }] },
  },
  {
    id: 'stripped-cjs',
    title: "Node's own type stripping, CommonJS (`.cts`)",
    kind,
    files: {
      'orders.cts': `type Id = number;
async function createOrder(id: Id): Promise<Id> { here(); return exports.price(id); }
exports.createOrder = createOrder;
exports.price = (id: Id): Id => { here(); return id * 10; };
`,
    },
    targets: [{ function: 'createOrder' }, { function: 'price' }],
    call: `import { createRequire } from 'node:module';
const { createOrder } = createRequire(import.meta.url)('./orders.cts');
export default () => createOrder(1);`,
    returns: 10,
    events: { createOrder: 1, price: 1 },
  },
];
