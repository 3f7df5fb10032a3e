import Fastify from 'fastify';
import { openDatabase } from './database.ts';
import { createOrderRepository, type NewOrder } from './order-repository.ts';
import { OrderService } from './order-service.ts';

const database = openDatabase(process.env.ORDERS_DB ?? 'orders.db');
const service = new OrderService(createOrderRepository(database));
const app = Fastify();

app.post('/orders', async (request, reply) => {
  try {
    return reply.code(201).send(await service.create(request.body as NewOrder));
  } catch (error) {
    return reply.code(400).send({ error: (error as Error).message });
  }
});

app.post('/orders/:id/cancel', async (request, reply) => {
  const { id } = request.params as { id: string };
  const { reason } = request.body as { reason: string };
  const order = await service.cancel(Number(id), reason);
  return order ?? reply.code(404).send({ error: 'no open order with this id' });
});

const address = await app.listen({ port: Number(process.env.PORT ?? 3000) });
console.log(`orders: listening on ${address}`);

process.once('SIGTERM', async () => {
  await app.close();
  database.close();
});
