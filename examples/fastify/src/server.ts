import Fastify, { type FastifyRequest } from 'fastify';
import { setContext } from 'svc';
import { createInvoices, type Invoice } from './invoices.ts';

const tenants = new Map([
  ['acme-key', { id: 'u-3', tenant: 'acme' }],
  ['globex-key', { id: 'u-4', tenant: 'globex' }],
]);

const invoices = createInvoices(process.env.INVOICES_DB ?? 'invoices.db');
const app = Fastify();

// Fastify has a request object of its own: who asks is said here, in the one line that knows svc.
app.addHook('onRequest', async (request, reply) => {
  const user = tenants.get(String(request.headers['x-api-key']));
  if (user === undefined) return reply.code(401).send({ error: 'an x-api-key is needed' });
  setContext({ userId: user.id, tags: { tenant: user.tenant } });
});

app.post('/invoices', {
  schema: {
    body: {
      type: 'object',
      required: ['customer', 'iban', 'cents'],
      properties: {
        customer: { type: 'string' },
        iban: { type: 'string' },
        cents: { type: 'integer', minimum: 1 },
      },
    },
  },
  handler: async (request: FastifyRequest<{ Body: Pick<Invoice, 'customer' | 'iban' | 'cents'> }>, reply) =>
    reply.code(201).send(await invoices.issue(request.body)),
});

app.post('/invoices/:id/payment', async (request: FastifyRequest<{ Params: { id: string } }>) =>
  invoices.pay(Number(request.params.id)),
);

app.addHook('onClose', async () => invoices.close());
process.once('SIGTERM', () => app.close());

console.log(`invoices: listening on ${await app.listen({ port: Number(process.env.PORT ?? 3000) })}`);
