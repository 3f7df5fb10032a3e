import assert from 'node:assert/strict';
import { eventTypeOfCommand } from '../../../src/cli/init.ts';

describe('which functions look like commands', () => {
  for (const [path, file, expected] of [
    ['createOrder', 'src/a.ts', 'ORDER_CREATED'],
    ['cancel_order_item', 'src/a.ts', 'ORDER_ITEM_CANCELLED'],
    ['OrderService.prototype.create', 'src/a.ts', 'ORDER_CREATED'],
    ['invoices.pay', 'src/a.ts', 'INVOICE_PAID'],
    ['deliveries.apply', 'src/a.ts', undefined],
    ['create', 'src/orders.ts', 'ORDER_CREATED'],
    ['submit', 'src/claims/index.js', 'CLAIM_SUBMITTED'],
    ['default.update', 'src/user-service.ts', 'USER_UPDATED'],
    ['createServer', 'src/a.ts', undefined],
    ['createOrderRepository', 'src/a.ts', undefined],
    ['addEventListener', 'src/a.ts', undefined],
    ['created', 'src/a.ts', undefined],
    ['getOrder', 'src/a.ts', undefined],
    ['address', 'src/a.ts', undefined],
  ] as const)
    it(`${path} of ${file}: ${expected ?? 'no command'}`, () => {
      assert.equal(eventTypeOfCommand(path, file), expected);
    });
});
