import { openDatabase } from './database.ts';
import { orderTickets } from './orders.ts';

const database = await openDatabase(process.env.DATABASE_URL ?? 'postgres://localhost/tickets');
for (const [email, tickets] of [
  ['ann@example.com', 2],
  ['bob@example.com', 99],
  ['cleo@example.com', 4],
] as const) {
  try {
    const { id } = await orderTickets(database, { concert: 'Night of the Proms', email, tickets });
    console.log(`order ${id}: ${tickets} tickets`);
  } catch {
    console.log(`no order for ${tickets} tickets`);
  }
}
await database.$client.end();
