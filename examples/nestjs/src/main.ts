import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { BookingsController } from './bookings.controller.js';
import { BookingsService } from './bookings.service.js';
import { Database } from './database.js';

@Module({ controllers: [BookingsController], providers: [BookingsService, Database] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
app.enableShutdownHooks();
await app.listen(Number(process.env.PORT ?? 3000));
console.log(`rooms: listening on ${await app.getUrl()}`);
