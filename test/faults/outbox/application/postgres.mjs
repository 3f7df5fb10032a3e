import pg from 'pg';

const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  max: Number(process.env.FAULT_WORKERS),
  connectionTimeoutMillis: 5_000,
});
pool.on('error', () => {});
// Of one that is in use, while no query of it is.
pool.on('connect', (client) => client.on('error', () => {}));

export const connect = () => pool.connect();
export const release = (client, broken) => client.release(broken);
export const send = (client, sql) => client.query(sql);
export const insertOrder = (client, name) => client.query('INSERT INTO orders (name) VALUES ($1)', [name]);

export async function insertAttempt(client, rollsBack) {
  const sql = 'INSERT INTO attempts (rolls_back) VALUES ($1) RETURNING number';
  return (await client.query(sql, [rollsBack])).rows[0].number;
}
