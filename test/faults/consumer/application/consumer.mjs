// Makes a bill of each order, and publishes that by its own outbox.
import pg from 'pg';
import { outbox } from 'svc';
import { consumeOnce, createInbox } from 'svc/consumer';
import { consumer } from './client.mjs';

const pool = new pg.Pool({ connectionString: process.env.BILLS_DATABASE });
pool.on('error', () => {});
const inbox = createInbox({ pool, consumer: 'billing' });

async function bill({ eventId, payload: { key, number } }, tx) {
  await tx.query('INSERT INTO bills (key, number, event_id) VALUES ($1, $2, $3)', [key, number, eventId]);
  await outbox.save(tx, {
    ...{ eventType: 'BILLED', aggregateType: 'Bill', aggregateId: key, topic: process.env.BILLS },
    payload: { key, number },
  });
}

for (;;) {
  try {
    const consumption = await consumeOnce({
      ...{
        consumer: consumer('billing'),
        topics: [process.env.ORDERS],
        inbox,
        handlers: { ORDER_PLACED: bill },
      },
      retry: { initialMs: 100, maxMs: 1_000 },
    });
    setInterval(() => console.log(JSON.stringify(consumption.counts())), 5_000);
    break;
  } catch {
    // Broker or database are away.
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}
process.stdin.resume().on('end', () => process.kill(process.pid, 'SIGKILL'));
console.log('ready');
