import { within } from '../../ground/clock.ts';
import { rootCause } from './kafkajs-failure.ts';

interface Connectable {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
}

/** Without retries kafkajs tries one broker a call, and goes on to the next of its list with the next call. */
export async function connectThroughSeeds(client: Connectable, seedCount: number): Promise<void> {
  for (let seed = 1; ; seed++) {
    try {
      return await client.connect();
    } catch (error) {
      if (seed >= seedCount || rootCause(error).name !== 'KafkaJSConnectionError') throw error;
    }
  }
}

/** kafkajs waits for answers that may never come before it disconnects. Never rejects. */
export async function disconnectWithin(client: Connectable, limitMs: number): Promise<void> {
  const leaving = client.disconnect().catch(() => {});
  await within(limitMs, leaving);
}
