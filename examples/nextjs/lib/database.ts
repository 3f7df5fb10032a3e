import { drizzle } from 'drizzle-orm/node-postgres';
import { integer, pgTable, serial, text } from 'drizzle-orm/pg-core';

export const orders = pgTable('orders', {
  id: serial().primaryKey(),
  product: text().notNull(),
  quantity: integer().notNull(),
});

export const database = drizzle(process.env.DATABASE_URL ?? 'postgres://localhost/nextjs');
