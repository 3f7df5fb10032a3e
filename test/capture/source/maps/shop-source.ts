import assert from 'node:assert/strict';
import type { Outcome } from '../run-app.ts';

/** Each kind of definition once, in a file that no build leaves as it is. */
export const sources: Readonly<Record<string, string>> = {
  'package.json': '{"name":"shop","type":"module"}',
  'src/orders.ts': `import { stamp } from './stamp.js';
export interface Order { product: string; quantity: number }
/** Not exported by the entry, and called from its own file only. */
async function checkOrder(order: Order): Promise<Order> {
  if (order.quantity > 90) throw new Error('too many');
  return stamp(order);
}
export async function createOrder(order: Order, note = 'none'): Promise<string> {
  const checked = await checkOrder(order);
  return checked.product + note;
}
export const cancelOrder = async (id: number): Promise<number> => {
  if (id > 90) throw new Error('unknown');
  return id;
};
export class OrderService {
  readonly #prefix: string;
  constructor(prefix: string) { this.#prefix = prefix; }
  async cancel(id: number): Promise<string> { return this.#prefix + id; }
  ship = async (id: number): Promise<number> => id * 2;
  static open(prefix: string): OrderService { return new OrderService(prefix); }
}
export const repo = {
  async save(row: Order): Promise<Order> { return row; },
  find: async (key: number): Promise<number> => key,
};
export function createRepository(table: string) {
  const rows: string[] = [];
  return { async insert(row: string): Promise<number> { rows.push(table + row); return rows.length; } };
}
`,
  'src/stamp.ts': `export const stamp = <T extends object>(value: T): T => ({ ...value, at: 1 });
`,
  'src/main.ts': `import { cancelOrder, createOrder, createRepository, OrderService, repo } from './orders.js';
async function main(): Promise<void> {
  const service = OrderService.open('p');
  const rows = createRepository('t');
  const results = [
    await createOrder({ product: 'bell', quantity: 1 }),
    await createOrder({ product: 'lamp', quantity: 2 }, '!'),
    await cancelOrder(3),
    await service.cancel(4),
    await service.ship(5),
    (await repo.save({ product: 'save', quantity: 1 })).product,
    await repo.find(6),
    await rows.insert('a'),
    await rows.insert('b'),
  ];
  await createOrder({ product: 'bell', quantity: 99 }).catch(
    (error: Error) => console.log('LINE', /orders\\.ts:(\\d+):/.exec(error.stack ?? '')?.[1] ?? error.stack),
  );
  console.log('RESULTS', JSON.stringify(results));
}
void main();
`,
};

/** What the application prints. */
export const results = 'RESULTS ["bellnone","lamp!",3,"p4",10,"save",6,1,2]';

export const module = './src/orders.ts';

/** How often each target is called by one run (calls that end), and what its parameters are called in the source. */
export const calls: Readonly<Record<string, readonly [count: number, names: readonly string[]]>> = {
  createOrder: [3, ['order', 'note']],
  checkOrder: [3, ['order']],
  cancelOrder: [1, ['id']],
  'OrderService.prototype.cancel': [1, ['id']],
  'OrderService.prototype.ship': [1, ['id']],
  'OrderService.open': [1, ['prefix']],
  'repo.save': [1, ['row']],
  'repo.find': [1, ['key']],
  'createRepository().insert': [2, ['row']],
};

/** Calls that end without an error, by target: what makes events. */
export const eventCounts: Readonly<Record<string, number>> = Object.fromEntries(
  Object.entries(calls).map(([path, [count]]) => [
    path,
    /^(create|check)Order$/.test(path) ? count - 1 : count,
  ]),
);

/** A configuration with an event type for each. */
export const configuredTargets = Object.keys(calls).map((path) => ({
  module,
  function: path,
  eventType: path,
}));

/** Where tools do not look for `orders.ts` when they read `orders.js`. */
export const plainSources: typeof sources = Object.fromEntries(
  Object.entries(sources).map(([path, text]) => [path, text.replace(/'(\.\/\w+)\.js'/g, "'$1'")]),
);

export const targets = Object.keys(calls).map((path) => `${module}#${path}`);

export function assertCaptured({ stdout, stderr, reports, calls: seen, names: found }: Outcome): void {
  assert.ok(stdout.includes(results), `${stdout}\n${stderr}`);
  for (const [path, [count, names]] of Object.entries(calls)) {
    const id = `${module}#${path}`;
    assert.equal(reports[id]?.state, 'patched', `${id}: ${reports[id]?.reason}`);
    assert.equal(seen[id], count, `${id}: ${JSON.stringify(reports[id])}`);
    assert.deepEqual(found[id], names, id);
  }
}
