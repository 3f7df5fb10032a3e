import { DatabaseSync } from 'node:sqlite';

export interface Reading {
  id: number;
  meter: string;
  kwh: number;
}

export function openReadings(): DatabaseSync {
  const readings = new DatabaseSync(process.env.METERS_DB ?? 'meters.db');
  readings.exec(`
    PRAGMA busy_timeout = 5000;
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS readings (id INTEGER PRIMARY KEY, meter TEXT NOT NULL, kwh REAL NOT NULL CHECK (kwh >= 0))`);
  return readings;
}

export function record(readings: DatabaseSync, meter: string, kwh: number): Reading {
  const row = readings.prepare('INSERT INTO readings (meter, kwh) VALUES (?, ?) RETURNING *').get(meter, kwh);
  return { ...row } as unknown as Reading;
}
