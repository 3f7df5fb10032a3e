import { placeOrder } from '../../../lib/orders';

export async function POST(request: Request): Promise<Response> {
  const { product, quantity } = (await request.json()) as { product: string; quantity: number };
  try {
    return Response.json(await placeOrder(product, quantity), { status: 201 });
  } catch (error) {
    return Response.json({ error: (error as Error).message }, { status: 409 });
  }
}
