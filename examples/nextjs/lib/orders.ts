import { desc } from 'drizzle-orm';
import { database, orders } from './database';

export type Order = typeof orders.$inferSelect;

/** The order and its event are stored together, or neither is: svc.config.yaml names this function. */
export async function placeOrder(product: string, quantity: number): Promise<Order> {
  return database.transaction(async (transaction) => {
    const [placed] = await transaction.insert(orders).values({ product, quantity }).returning();
    if (quantity > 10) throw new Error(`there are not so many of ${product}`);
    return placed as Order;
  });
}

export async function latestOrders(): Promise<Order[]> {
  return database.select().from(orders).orderBy(desc(orders.id)).limit(10);
}
