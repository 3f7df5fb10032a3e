'use server';

import { revalidatePath } from 'next/cache';
import { placeOrder } from '../lib/orders';

export async function order(form: FormData): Promise<void> {
  await placeOrder(String(form.get('product')), Number(form.get('quantity')));
  revalidatePath('/');
}
