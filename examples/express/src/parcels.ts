import type { DatabaseSync } from 'node:sqlite';

export interface Parcel {
  id: number;
  recipient: string;
  grams: number;
  status: 'POSTED' | 'DELIVERED';
}

/** The database refuses what is too heavy. */
export function post(database: DatabaseSync, recipient: string, grams: number): Parcel {
  return one(
    database,
    `INSERT INTO parcels (recipient, grams, status) VALUES (?, ?, 'POSTED') RETURNING *`,
    recipient,
    grams,
  );
}

/** Throws where there is no such parcel, or it has been delivered before. */
export function deliver(database: DatabaseSync, id: number): Parcel {
  return one(
    database,
    `UPDATE parcels SET status = 'DELIVERED' WHERE id = ? AND status = 'POSTED' RETURNING *`,
    id,
  );
}

function one(database: DatabaseSync, sql: string, ...values: (string | number)[]): Parcel {
  const row = database.prepare(sql).get(...values);
  if (row === undefined) throw new Error('no parcel is under way with this id');
  return { ...row } as unknown as Parcel;
}
