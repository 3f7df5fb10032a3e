import { sql } from 'drizzle-orm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { check, integer, pgTable, serial, text } from 'drizzle-orm/pg-core';
import type { Pool } from 'pg';

export const concerts = pgTable(
  'concerts',
  { name: text().primaryKey(), left: integer().notNull() },
  ({ left }) => [check('enough_left', sql`${left} >= 0`)],
);

export const orders = pgTable('orders', {
  id: serial().primaryKey(),
  concert: text().notNull(),
  email: text().notNull(),
  tickets: integer().notNull(),
});

export type Database = NodePgDatabase & { $client: Pool };

export async function openDatabase(url: string): Promise<Database> {
  const database = drizzle(url);
  await database.execute(sql`
    CREATE TABLE IF NOT EXISTS concerts (name text PRIMARY KEY, "left" integer NOT NULL CONSTRAINT enough_left CHECK ("left" >= 0));
    CREATE TABLE IF NOT EXISTS orders (
      id serial PRIMARY KEY,
      concert text NOT NULL,
      email text NOT NULL,
      tickets integer NOT NULL
    );
    INSERT INTO concerts VALUES ('Night of the Proms', 100) ON CONFLICT DO NOTHING`);
  return database;
}
