// The application: it stores orders in transactions, and knows nothing of svc. It works from its start to its end.
import { connect, insertAttempt, insertOrder, release, send } from './database.mjs';

const { FAULT_WORKERS, FAULT_WORKER_FROM, FAULT_KEYS, FAULT_PAUSE_MS } = process.env;
const padding = 'x'.repeat(700);

export async function order(connection, key, call) {
  await insertOrder(connection, call);
  return { key, call, padding };
}

let isOver = false;
const pause = () => new Promise((resolve) => setTimeout(resolve, Number(FAULT_PAUSE_MS) * Math.random() * 2));

/** The keys of one worker are those of no other: they commit in the order of their numbers. */
async function work(worker) {
  const keys = [];
  for (let key = worker; key < Number(FAULT_KEYS); key += Number(FAULT_WORKERS) * 2) keys.push(`k${key}`);
  for (let turn = 0; !isOver; turn++) {
    const key = keys[turn % keys.length];
    try {
      await transact(key, turn % 5 === 4);
    } catch {
      // A database that is away: the next one, later.
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await pause();
  }
}

/** The attempt is written down before its transaction, and stays whatever becomes of it. */
async function transact(key, rollsBack) {
  const connection = await connect();
  let broken;
  try {
    const number = await insertAttempt(connection, rollsBack);
    await send(connection, 'BEGIN');
    await order(connection, key, `${key}/${number}`);
    await send(connection, rollsBack ? 'ROLLBACK' : 'COMMIT');
  } catch (error) {
    broken = error;
    throw error;
  } finally {
    release(connection, broken);
  }
}

const from = Number(FAULT_WORKER_FROM);
const working = Promise.all(Array.from({ length: Number(FAULT_WORKERS) }, (_, index) => work(from + index)));
process.stdin.setEncoding('utf8').on('data', async (text) => {
  if (!text.includes('stop')) return;
  isOver = true;
  await working;
  console.log('stopped');
});
// The suite is gone, by whatever signal.
process.stdin.on('end', () => process.kill(process.pid, 'SIGKILL'));
console.log('ready');
