import type { DatabaseSync } from 'node:sqlite';

export interface Order {
  id: number;
  customer: string;
  email: string;
  product: string;
  quantity: number;
  status: 'OPEN' | 'CANCELLED';
}

export type NewOrder = Pick<Order, 'customer' | 'email' | 'product' | 'quantity'>;

export interface OrderRepository {
  insert(order: NewOrder): Order;
  find(id: number): Order | undefined;
  setStatus(id: number, status: Order['status']): void;
}

export function createOrderRepository(database: DatabaseSync): OrderRepository {
  const insert = database.prepare(
    "INSERT INTO orders (customer, email, product, quantity, status) VALUES (?, ?, ?, ?, 'OPEN') RETURNING *",
  );
  const find = database.prepare('SELECT * FROM orders WHERE id = ?');
  const setStatus = database.prepare('UPDATE orders SET status = ? WHERE id = ?');
  return {
    insert: ({ customer, email, product, quantity }) =>
      ({ ...insert.get(customer, email, product, quantity) }) as unknown as Order,
    find: (id) => find.get(id) as unknown as Order | undefined,
    setStatus: (id, status) => void setStatus.run(status, id),
  };
}
