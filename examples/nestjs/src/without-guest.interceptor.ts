import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import { map, type Observable } from 'rxjs';
import type { Booking } from './bookings.service.js';

/** Answers say when and where, and not who. */
@Injectable()
export class WithoutGuest implements NestInterceptor<Booking, Omit<Booking, 'guest'>> {
  intercept(_: ExecutionContext, next: CallHandler<Booking>): Observable<Omit<Booking, 'guest'>> {
    return next.handle().pipe(map(({ guest: _, ...booking }) => booking));
  }
}
