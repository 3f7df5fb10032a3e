import { latestOrders } from '../lib/orders';
import { order } from './actions';

export const dynamic = 'force-dynamic';

export default async function Page() {
  const orders = await latestOrders();
  return (
    <main>
      <form action={order}>
        <input name="product" defaultValue="bicycle" />
        <input name="quantity" type="number" defaultValue={1} />
        <button type="submit">Order</button>
      </form>
      <ul>
        {orders.map(({ id, product, quantity }) => (
          <li key={id}>
            {quantity} {product}
          </li>
        ))}
      </ul>
    </main>
  );
}
