import { DatabaseSync } from 'node:sqlite';

export interface Order {
  id: number;
  product: string;
  quantity: number;
}

export function openShop(file: string): DatabaseSync {
  const shop = new DatabaseSync(file);
  shop.exec(`
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS stock (product TEXT PRIMARY KEY, available INTEGER NOT NULL CHECK (available >= 0));
    CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, product TEXT NOT NULL, quantity INTEGER NOT NULL);
    INSERT OR IGNORE INTO stock VALUES ('bicycle', 3), ('helmet', 1)`);
  return shop;
}

/** Both in one transaction: an order for what is not there leaves nothing behind. */
export function order(shop: DatabaseSync, product: string, quantity: number): Order {
  shop.exec('BEGIN');
  try {
    const placed = placeOrder(shop, product, quantity);
    reserve(shop, product, quantity);
    shop.exec('COMMIT');
    return placed;
  } catch (error) {
    shop.exec('ROLLBACK');
    throw error;
  }
}

function placeOrder(shop: DatabaseSync, product: string, quantity: number): Order {
  const insert = shop.prepare('INSERT INTO orders (product, quantity) VALUES (?, ?) RETURNING *');
  return { ...insert.get(product, quantity) } as unknown as Order;
}

/** The database refuses less than nothing. */
function reserve(
  shop: DatabaseSync,
  product: string,
  quantity: number,
): { product: string; reserved: number } {
  shop.prepare('UPDATE stock SET available = available - ? WHERE product = ?').run(quantity, product);
  return { product, reserved: quantity };
}
