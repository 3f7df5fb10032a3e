import type { Library } from './library.ts';

const pg = { pg: '8.23.1' };

const promises = `
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE, max: 12 });

export async function transaction(work) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const result = await work(client);
    await client.query('COMMIT');
    return result;
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}

export async function nested(tx, work) {
  await tx.query('SAVEPOINT inner_one');
  try {
    const result = await work(tx);
    await tx.query('RELEASE SAVEPOINT inner_one');
    return result;
  } catch (error) {
    await tx.query('ROLLBACK TO SAVEPOINT inner_one');
    throw error;
  }
}

export const insert = (tx, id) => (tx ?? pool).query('INSERT INTO orders (id) VALUES ($1)', [id]);

export async function begin() {
  const tx = await pool.connect();
  await tx.query('begin isolation level read committed');
  const end = async (text) => { try { await tx.query(text); } finally { tx.release(); } };
  return { tx, commit: () => end('commit'), rollback: () => end('rollback') };
}

export const close = () => pool.end();
export const dataSource = async () => pool;
`;

const callbacks = `
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE, max: 12 });

export const transaction = (work) => new Promise((resolve, reject) => {
  pool.connect((error, client, release) => {
    if (error) return reject(error);
    const failed = (reason) => client.query('ROLLBACK', () => { release(); reject(reason); });
    client.query('BEGIN', (error) => {
      if (error) return failed(error);
      let running;
      try { running = work(client); } catch (error) { return failed(error); }
      running.then((result) => client.query('COMMIT', (error) => {
        if (error) return failed(error);
        release();
        resolve(result);
      }), failed);
    });
  });
});

export const nested = (tx, work) => new Promise((resolve, reject) => {
  tx.query('SAVEPOINT inner_one', (error) => {
    if (error) return reject(error);
    work(tx).then(
      (result) => tx.query('RELEASE inner_one', (error) => (error ? reject(error) : resolve(result))),
      (reason) => tx.query('ROLLBACK TO inner_one', () => reject(reason)),
    );
  });
});

export const insert = (tx, id) => new Promise((resolve, reject) => {
  (tx ?? pool).query('INSERT INTO orders (id) VALUES ($1)', [id], (error, result) => (error ? reject(error) : resolve(result)));
});

export const begin = () => new Promise((resolve, reject) => {
  pool.connect((error, tx, release) => {
    if (error) return reject(error);
    const end = (text) => () => new Promise((done, failed) => {
      tx.query(text, (error) => { release(); error ? failed(error) : done(); });
    });
    tx.query('START TRANSACTION', (error) => (error ? reject(error) : resolve({ tx, commit: end('COMMIT'), rollback: end('ROLLBACK') })));
  });
});

export const close = () => pool.end();
export const dataSource = async () => pool;
`;

/** Statements of the application's own, without an ORM. */
export const driverLibraries: readonly Library[] = [
  {
    id: 'pg-esm',
    title: '`pg`, ES modules',
    form: 'esm',
    isEveryday: true,
    dependencies: pg,
    database: promises,
    hasNoCallbackResult: true,
  },
  {
    id: 'pg-cjs',
    title: '`pg`, CommonJS',
    form: 'cjs',
    isEveryday: true,
    dependencies: pg,
    database: promises,
    hasNoCallbackResult: true,
  },
  {
    id: 'pg-ts',
    title: '`pg`, TypeScript run by Node',
    form: 'ts',
    isEveryday: true,
    dependencies: pg,
    database: promises,
    hasNoCallbackResult: true,
  },
  {
    id: 'pg-callbacks',
    title: '`pg` with callbacks',
    form: 'cjs',
    isEveryday: true,
    dependencies: pg,
    database: callbacks,
    hasNoCallbackResult: true,
  },
];
