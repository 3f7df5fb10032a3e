import { eq, sql } from 'drizzle-orm';
import { concerts, type Database, orders } from './database.ts';

export interface Order {
  id: number;
  concert: string;
  email: string;
  tickets: number;
}

type Transaction = Parameters<Parameters<Database['transaction']>[0]>[0];

/** All of it in one transaction: an order for tickets that are not there leaves nothing behind. */
export async function orderTickets(
  database: Pick<Database, 'transaction'>,
  order: Omit<Order, 'id'>,
): Promise<Order> {
  return database.transaction(async (transaction) => {
    const [placed] = await transaction.insert(orders).values(order).returning();
    await take(transaction, order.concert, order.tickets);
    return placed as Order;
  });
}

/** The database refuses less than nothing. */
async function take(transaction: Transaction, concert: string, tickets: number): Promise<{ left: number }> {
  const [taken] = await transaction
    .update(concerts)
    .set({ left: sql`${concerts.left} - ${tickets}` })
    .where(eq(concerts.name, concert))
    .returning({ left: concerts.left });
  if (taken === undefined) throw new Error('there is no such concert');
  return taken;
}
