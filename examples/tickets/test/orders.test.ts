import assert from 'node:assert/strict';
import { after, beforeEach, it } from 'node:test';
import {
  assertNothingPublished,
  assertNothingStored,
  assertRolledBack,
  assertStored,
  clear,
  waitFor,
} from 'svc/testing';
import { openDatabase } from '../src/database.ts';
import { orderTickets } from '../src/orders.ts';

// node --import svc/register test/orders.test.ts, with SVC_BROKER_CLIENT=memory: the relay sends to `waitFor`.
const database = await openDatabase(process.env.DATABASE_URL ?? 'postgres://localhost/tickets');
const concert = 'Night of the Proms';

beforeEach(() => clear());
after(() => database.$client.end());

it('an order and the tickets it takes are stored together, and sent', async () => {
  const { id } = await orderTickets(database, { concert, email: 'ann@example.com', tickets: 2 });
  const order = { aggregateType: 'Order', aggregateId: String(id) };
  assertStored({ ...order, eventType: 'TICKETS_ORDERED', payload: { tickets: 2 } });
  assertStored({ eventType: 'TICKETS_TAKEN', aggregateId: concert, payload: { tickets: 2 } });
  const [sent] = await waitFor({ eventType: 'TICKETS_ORDERED' });
  assert.equal(sent?.payload.id, id);
  assert.doesNotMatch(JSON.stringify(sent), /ann@example/);
});

it('an order for more than there is has no event', async () => {
  await assert.rejects(orderTickets(database, { concert, email: 'bob@example.com', tickets: 1000 }));
  assertNothingStored();
  assertNothingPublished();
});

it('what was stored goes with its transaction', async () => {
  const later = new Error('the payment was refused');
  await assert.rejects(
    database.transaction(async (transaction) => {
      await orderTickets(transaction, { concert, email: 'cleo@example.com', tickets: 1 });
      assertStored({ eventType: 'TICKETS_TAKEN', state: 'open' });
      throw later;
    }),
    later,
  );
  assertRolledBack({ eventType: 'TICKETS_ORDERED' });
  assertNothingStored();
});
