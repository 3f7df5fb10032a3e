import { within } from '../../ground/clock.ts';

interface Connectable {
  disconnect(): Promise<void>;
}

/** kafkajs waits for answers that may never come before it disconnects. Never rejects. */
export async function disconnectWithin(client: Connectable, limitMs: number): Promise<void> {
  const leaving = client.disconnect().catch(() => {});
  await within(limitMs, leaving);
}
