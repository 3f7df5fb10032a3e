import { ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import { Database } from './database.js';

export interface Booking {
  id: number;
  room: number;
  day: string;
  guest: string;
}

@Injectable()
export class BookingsService {
  constructor(private readonly database: Database) {}

  /** The database refuses a room that is taken. */
  async book(room: number, day: string, guest: string): Promise<Booking> {
    try {
      return this.one(
        'INSERT INTO bookings (room, day, guest) VALUES (?, ?, ?) RETURNING *',
        room,
        day,
        guest,
      );
    } catch {
      throw new ConflictException('this room is taken on that day');
    }
  }

  async cancel(id: number): Promise<Booking> {
    return this.one('DELETE FROM bookings WHERE id = ? RETURNING *', id);
  }

  private one(sql: string, ...values: (string | number)[]): Booking {
    const row = this.database.connection.prepare(sql).get(...values);
    if (row === undefined) throw new NotFoundException('there is no such booking');
    return { ...row } as unknown as Booking;
  }
}
