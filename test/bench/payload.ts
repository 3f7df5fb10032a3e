/** About 1 KB of JSON, as an order is. */
export const payload = {
  orderId: 'ord-20260304-000017',
  customer: {
    id: 'c-4711',
    name: 'Ada Example',
    email: 'ada@example.com',
    phones: ['010-1234-5678', '010-8765-4321'],
  },
  address: { street: 'Main Street 12', city: 'Berlin', zip: '10115', country: 'DE' },
  items: Array.from({ length: 6 }, (_, index) => ({
    sku: `sku-${1000 + index}`,
    title: `A product with an ordinary title, number ${index}`,
    quantity: index + 1,
    price: 12.5 * (index + 1),
  })),
  total: 262.5,
  currency: 'EUR',
  note: 'Please ring twice; the bell is on the left hand side of the door. '.repeat(2),
  createdAt: '2026-03-04T10:00:00.120Z',
  flags: [true, false, null],
} as const;
