import type { NewOrder, Order, OrderRepository } from './order-repository.ts';

export class OrderService {
  private readonly orders: OrderRepository;

  constructor(orders: OrderRepository) {
    this.orders = orders;
  }

  async create(order: NewOrder): Promise<Order> {
    if (!(order.quantity > 0)) throw new RangeError('quantity must be positive');
    const created = this.orders.insert(order);
    reserveStock(created.product, created.quantity);
    return created;
  }

  async cancel(id: number, reason: string): Promise<Order | undefined> {
    if (reason === '') throw new RangeError('a cancellation needs a reason');
    const order = this.orders.find(id);
    if (order === undefined || order.status === 'CANCELLED') return undefined;
    this.orders.setStatus(id, 'CANCELLED');
    return { ...order, status: 'CANCELLED' };
  }
}

// Neither exported nor passed to anyone: only this module can call it.
function reserveStock(product: string, quantity: number): { product: string; reserved: number } {
  return { product, reserved: quantity };
}
