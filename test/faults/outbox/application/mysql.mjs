import mysql from 'mysql2/promise';

const pool = mysql.createPool({
  uri: process.env.DATABASE_URL,
  connectionLimit: Number(process.env.FAULT_WORKERS),
  connectTimeout: 5_000,
});

export const connect = () => pool.getConnection();
export const release = (connection, broken) => (broken ? connection.destroy() : connection.release());
export const send = (connection, sql) => connection.query(sql);
export const insertOrder = (connection, name) =>
  connection.query('INSERT INTO orders (name) VALUES (?)', [name]);

export async function insertAttempt(connection, rollsBack) {
  const [result] = await connection.query('INSERT INTO attempts (rolls_back) VALUES (?)', [rollsBack]);
  return result.insertId;
}
