import { desc } from 'drizzle-orm';
import { publishEvent } from 'svc';
import { database, orders } from './database';

export type Order = typeof orders.$inferSelect;

/** The order and its event are stored together, or neither is. */
export const placeOrder = publishEvent(
  {
    eventType: 'ORDER_PLACED',
    // `next build` renames parameters: their names are not known there.
    payload: '{ id: #result.id, product: #args[0], quantity: #args[1] }',
    outbox: { aggregateType: 'Order', aggregateId: '#result.id', result: 'transaction' },
  },
  async (product: string, quantity: number): Promise<Order> =>
    database.transaction(async (transaction) => {
      const [placed] = await transaction.insert(orders).values({ product, quantity }).returning();
      if (quantity > 10) throw new Error(`there are not so many of ${product}`);
      return placed as Order;
    }),
);

export async function latestOrders(): Promise<Order[]> {
  return database.select().from(orders).orderBy(desc(orders.id)).limit(10);
}
