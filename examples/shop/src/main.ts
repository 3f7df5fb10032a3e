import { openShop, order } from './orders.ts';

const shop = openShop(process.env.SHOP_DB ?? 'shop.db');
for (const [product, quantity] of [
  ['bicycle', 2],
  ['helmet', 1],
  ['bicycle', 2],
] as const) {
  try {
    console.log(`order ${order(shop, product, quantity).id}: ${quantity} x ${product}`);
  } catch (error) {
    console.log(`no order for ${quantity} x ${product}: ${(error as Error).message}`);
  }
}
shop.close();
