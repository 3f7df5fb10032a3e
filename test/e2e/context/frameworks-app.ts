import type { Dependencies } from '../../support/packed.ts';

/** What the application of `users.test.ts` installs. Exact versions, as all that is installed by these tests. */
export const frameworkDependencies: Dependencies = {
  '@grpc/grpc-js': '1.14.7',
  '@hapi/hapi': '21.4.10',
  '@hono/node-server': '2.1.9',
  '@nestjs/common': '11.2.10',
  '@nestjs/core': '11.2.10',
  '@nestjs/platform-express': '11.2.10',
  '@nestjs/platform-fastify': '11.2.8',
  '@opentelemetry/instrumentation-mysql2': '0.70.0',
  '@opentelemetry/instrumentation-pg': '0.77.0',
  dataloader: '2.2.3',
  express4: 'npm:express@^4.21.0',
  express: '^5.1.0',
  fastify: '^5.12.8',
  graphql: '^16.11.0',
  'graphql-yoga': '5.24.1',
  hono: '4.13.19',
  koa: '3.3.0',
  mysql2: '^3.24.0',
  pg: '^8.23.1',
  'reflect-metadata': '0.2.2',
  rxjs: '7.8.2',
};

/** The only captured function: called with the number of its request, from wherever a request may lead. */
const record = `export async function record(tag, via) { return null; }`;

/** What each request does: timers, and both drivers with promises and with callbacks, on connections that requests share. */
const work = `
import { setTimeout as sleep } from 'node:timers/promises';
import mysql from 'mysql2';
import pg from 'pg';
import { record } from './record.mjs';

const postgres = new pg.Pool({ connectionString: process.env.POSTGRES, max: 3 });
const maria = mysql.createPool({ uri: process.env.MYSQL, connectionLimit: 3 });

export async function work(tag) {
  await sleep(Math.random() * 10);
  await postgres.query('SELECT 1');
  await record(tag, 'pg promise');
  await maria.promise().query('SELECT 1');
  await record(tag, 'mysql2 promise');
  await new Promise((done) => setImmediate(() => record(tag, 'timer').then(done)));
  await new Promise((done, fail) => {
    postgres.query('SELECT 1', (error) => (error ? fail(error) : record(tag, 'pg callback').then(done, fail)));
  });
  await new Promise((done, fail) => {
    maria.query('SELECT 1', (error) => (error ? fail(error) : record(tag, 'mysql2 callback').then(done, fail)));
  });
}
/** One batch of a DataLoader. */
export async function loadAll(keys) {
  await postgres.query('SELECT 1');
  await record(keys[0], 'DataLoader');
  return keys;
}`;

const main = `
import 'reflect-metadata';
import { createServer } from 'node:http';
import http2 from 'node:http2';
import grpc from '@grpc/grpc-js';
import hapi from '@hapi/hapi';
import { serve } from '@hono/node-server';
import { Controller, Get, Module, Req } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import DataLoader from 'dataloader';
import express from 'express';
import express4 from 'express4';
import fastify from 'fastify';
import { createSchema, createYoga } from 'graphql-yoga';
import { Hono } from 'hono';
import Koa from 'koa';
import { loadAll, work } from './work.mjs';

const host = '127.0.0.1';
const servers = {};
const listen = (server) => new Promise((done) => { const at = server.listen(0, host, () => done(at.address().port)); });
const plain = async (request, response) => { await work(Number(request.headers['x-tag'])); response.end('ok'); };

servers['plain HTTP/1'] = await listen(createServer(plain));
servers['plain HTTP/2'] = await listen(http2.createServer(plain));
for (const [name, make] of [['Express 4', express4], ['Express 5', express]]) {
  const app = make();
  app.get('/', (request, response, next) => void work(Number(request.get('x-tag'))).then(() => response.send('ok'), next));
  servers[name] = await listen(app);
}
const fast = fastify();
fast.get('/', async (request) => { await work(Number(request.headers['x-tag'])); return 'ok'; });
await fast.listen({ port: 0, host });
servers.Fastify = fast.server.address().port;

class OrdersController {
  async get(request) { await work(Number(request.headers['x-tag'])); return 'ok'; }
}
Req()(OrdersController.prototype, 'get', 0);
Get()(OrdersController.prototype, 'get', Object.getOwnPropertyDescriptor(OrdersController.prototype, 'get'));
Controller()(OrdersController);
for (const [name, adapter] of [['Nest on Express', undefined], ['Nest on Fastify', new FastifyAdapter()]]) {
  class AppModule {}
  Module({ controllers: [OrdersController] })(AppModule);
  const app = await NestFactory.create(AppModule, ...(adapter ? [adapter] : []), { logger: false });
  await app.listen(0, host);
  servers[name] = app.getHttpServer().address().port;
}
servers.Koa = await listen(new Koa().use(async (context) => { await work(Number(context.get('x-tag'))); context.body = 'ok'; }));
const hono = new Hono().get('/', async (context) => { await work(Number(context.req.header('x-tag'))); return context.text('ok'); });
servers.Hono = await new Promise((done) => serve({ fetch: hono.fetch, port: 0, hostname: host }, ({ port }) => done(port)));
const happy = hapi.server({ port: 0, host });
happy.route({ method: 'GET', path: '/', handler: async (request) => { await work(Number(request.headers['x-tag'])); return 'ok'; } });
await happy.start();
servers.hapi = happy.info.port;
const yoga = createYoga({
  logging: false,
  schema: createSchema({
    typeDefs: 'type Query { item(tag: Int!): Int }',
    resolvers: { Query: { item: async (_root, { tag }, { loader }) => { await work(tag); return loader.load(tag); } } },
  }),
  context: () => ({ loader: new DataLoader(loadAll, { cache: false }) }),
});
servers.yoga = await listen(createServer(yoga));
const rpc = new grpc.Server();
const bytes = (given) => given;
const method = { path: '/shop.Orders/Place', requestStream: false, responseStream: false, requestSerialize: bytes, requestDeserialize: bytes, responseSerialize: bytes, responseDeserialize: bytes };
rpc.addService({ place: method }, { place: (call, done) => void work(Number(call.request)).then(() => done(null, Buffer.from('ok')), done) });
servers['grpc-js'] = await new Promise((done, fail) => rpc.bindAsync(host + ':0', grpc.ServerCredentials.createInsecure(), (error, port) => (error ? fail(error) : done(port))));

console.log('servers ' + JSON.stringify(servers));`;

/** 200 requests at once for each server: a user, a correlation id, an address and a trace for each. */
const client = `
import { Agent, request } from 'node:http';
import http2 from 'node:http2';
import grpc from '@grpc/grpc-js';

const servers = JSON.parse(process.argv[2]);
const count = Number(process.argv[3]);
let next = 0;
const headersOf = (tag) => ({
  'x-tag': String(tag), 'x-user': 'user-' + tag, 'x-correlation-id': 'correlation-' + tag,
  'x-forwarded-for': '203.0.' + (tag >> 8) + '.' + (tag & 255),
  traceparent: '00-' + tag.toString(16).padStart(32, 'a') + '-' + tag.toString(16).padStart(16, 'b') + '-01',
});
const drain = (stream) => new Promise((done, fail) => { stream.resume().on('end', done).on('error', fail); });
const agent = new Agent({ keepAlive: true, maxSockets: 40 });
const http1 = (port, tag, path = '/') => new Promise((done, fail) => {
  request({ port, path, host: '127.0.0.1', headers: headersOf(tag), agent }, (response) => {
    if (response.statusCode !== 200) fail(new Error(path + ' ' + response.statusCode));
    drain(response).then(done, fail);
  }).on('error', fail).end();
});
for (const [name, port] of Object.entries(servers)) {
  const tags = Array.from({ length: count }, () => next++);
  if (name === 'plain HTTP/2') {
    const sessions = Array.from({ length: 4 }, () => http2.connect('http://127.0.0.1:' + port));
    await Promise.all(tags.map((tag) => drain(sessions[tag % 4].request(headersOf(tag)))));
    for (const session of sessions) session.close();
  } else if (name === 'grpc-js') {
    const one = new grpc.Client('127.0.0.1:' + port, grpc.credentials.createInsecure());
    await Promise.all(tags.map((tag) => new Promise((done, fail) => {
      const metadata = new grpc.Metadata();
      for (const [key, value] of Object.entries(headersOf(tag))) metadata.set(key, value);
      const bytes = (given) => given;
      one.makeUnaryRequest('/shop.Orders/Place', bytes, bytes, Buffer.from(String(tag)), metadata, (error) => (error ? fail(error) : done()));
    })));
    one.close();
  } else if (name === 'yoga') {
    const path = (tag) => '/graphql?query=' + encodeURIComponent('{ a: item(tag: ' + tag + ') b: item(tag: ' + tag + ') }');
    await Promise.all(tags.map((tag) => http1(port, tag, path(tag))));
  } else await Promise.all(tags.map((tag) => http1(port, tag)));
}
agent.destroy();`;

export const frameworkFiles = {
  'record.mjs': record,
  'work.mjs': work,
  'main.mjs': main,
  'client.mjs': client,
} as const;
