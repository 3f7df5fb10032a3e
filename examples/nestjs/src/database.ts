import { DatabaseSync } from 'node:sqlite';
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';

@Injectable()
export class Database implements OnApplicationShutdown {
  readonly connection = new DatabaseSync(process.env.ROOMS_DB ?? 'rooms.db');

  constructor() {
    this.connection.exec(`
      PRAGMA journal_mode = WAL;
      CREATE TABLE IF NOT EXISTS bookings (
        id INTEGER PRIMARY KEY,
        room INTEGER NOT NULL,
        day TEXT NOT NULL,
        guest TEXT NOT NULL,
        UNIQUE (room, day)
      )`);
  }

  onApplicationShutdown(): void {
    this.connection.close();
  }
}
