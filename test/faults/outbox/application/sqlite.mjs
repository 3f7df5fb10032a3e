import { DatabaseSync } from 'node:sqlite';

const handle = new DatabaseSync(process.env.DATABASE_URL.replace('sqlite:', ''), { timeout: 1_000 });
/** One handle has one transaction at a time: whoever wants the next one waits. */
const waiting = [];
let isTaken = false;

export async function connect() {
  if (isTaken) await new Promise((resolve) => waiting.push(resolve));
  isTaken = true;
  return handle;
}

export function release() {
  if (handle.isTransaction) handle.exec('ROLLBACK');
  const next = waiting.shift();
  if (next === undefined) isTaken = false;
  else next();
}

export const send = (_, sql) => handle.exec(sql === 'BEGIN' ? 'BEGIN IMMEDIATE' : sql);
export const insertOrder = (_, name) => handle.prepare('INSERT INTO orders (name) VALUES (?)').run(name);

export const insertAttempt = (_, rollsBack) =>
  handle.prepare('INSERT INTO attempts (rolls_back) VALUES (?)').run(Number(rollsBack)).lastInsertRowid;
