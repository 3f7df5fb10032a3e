// Stores orders, each with its event in the outbox. Whatever ends it, it goes on behind what is committed.
import pg from 'pg';
import { outbox } from 'svc';

const pool = new pg.Pool({ connectionString: process.env.SHOP_DATABASE });
pool.on('error', () => {});
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let isOver = false;

/** The numbers of a key follow each other without a gap. */
async function place(key) {
  await outbox.runInTransaction(pool, async (tx) => {
    const { rows } = await tx.query(
      'SELECT COALESCE(MAX(number), 0)::int + 1 AS number FROM orders WHERE key = $1',
      [key],
    );
    const { number } = rows[0];
    await tx.query('INSERT INTO orders (key, number) VALUES ($1, $2)', [key, number]);
    await outbox.save(tx, {
      ...{ eventType: 'ORDER_PLACED', aggregateType: 'Order', aggregateId: key, topic: process.env.ORDERS },
      payload: { key, number },
    });
  });
}

async function work(key) {
  while (!isOver) {
    await place(key).catch(() => pause(100));
    await pause(40);
  }
}

const working = Promise.all(Array.from({ length: 10 }, (_, key) => work(`k${key}`)));
process.stdin.on('data', async () => {
  isOver = true;
  await working;
  console.log('stopped');
});
process.stdin.on('end', () => process.kill(process.pid, 'SIGKILL'));
console.log('ready');
