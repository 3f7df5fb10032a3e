import {
  Body,
  Controller,
  Delete,
  Param,
  ParseIntPipe,
  Post,
  Req,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { BookingsService } from './bookings.service.js';
import { type User, UsersGuard } from './users.guard.js';
import { WithoutGuest } from './without-guest.interceptor.js';

@Controller('bookings')
@UseGuards(UsersGuard)
@UseInterceptors(WithoutGuest)
export class BookingsController {
  constructor(private readonly bookings: BookingsService) {}

  @Post()
  book(@Req() { user }: { user: User }, @Body() { room, day }: { room: number; day: string }) {
    return this.bookings.book(room, day, user.name);
  }

  @Delete(':id')
  cancel(@Param('id', ParseIntPipe) id: number) {
    return this.bookings.cancel(id);
  }
}
