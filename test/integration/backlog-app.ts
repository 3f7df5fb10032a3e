import { readdirSync } from 'node:fs';
import { loadConfig } from '../../src/config/read/load.ts';
import { useLogger } from '../../src/observe/logger.ts';
import { start } from '../../src/start/start.ts';

// An application of a test that kills it: publishes numbered events as it is told to, and says how many of them have their outcome.

export interface BacklogSetup {
  /** Of its keys. */
  readonly name: string;
  readonly firstNumber: number;
  readonly brokers: readonly string[];
  readonly topic: string;
  readonly backupFolder: string;
}

/** `publish`: so many more events. `die in drain`: by SIGKILL, when the first events of the backup are marked as sent. */
export type BacklogOrder = { readonly publish: number } | 'die in drain' | 'end';

/** All events before this number have an outcome; none of them is lost. */
export interface BacklogSaid {
  readonly safeUpTo: number;
}

/** So many events wait for their outcome at once. */
const chunk = 500;
const keyCount = 6;

if (process.send !== undefined) run(JSON.parse(process.argv[2] as string) as BacklogSetup);

function run({ name, firstNumber, brokers, topic, backupFolder }: BacklogSetup): void {
  const { config } = loadConfig({
    env: {},
    code: {
      svc: {
        service: { name, version: '1' },
        broker: { bootstrapServers: brokers, topic, dlqBackupPath: backupFolder },
        retry: { initialInterval: 100, maxAttempts: 1 },
      },
      management: { server: { port: 0 } },
    },
  });
  const quiet = (): void => {};
  useLogger({ debug: quiet, info: quiet, warn: quiet, error: quiet });
  const service = start(config);
  let next = firstNumber;

  async function publish(count: number): Promise<void> {
    for (const end = next + count; next < end; ) {
      const numbers = Array.from({ length: Math.min(chunk, end - next) }, () => next++);
      // What is lost rejects, and ends this process.
      await Promise.all(
        numbers.map((n) =>
          service.producer.publish({ n }, { eventType: 'T', key: `${name}-${n % keyCount}`, headers: { n } }),
        ),
      );
      process.send?.({ safeUpTo: next } satisfies BacklogSaid);
    }
  }

  function dieInDrain(): void {
    setInterval(() => {
      if (readdirSync(backupFolder).some((file) => file.endsWith('.done')))
        process.kill(process.pid, 'SIGKILL');
    }, 1);
  }

  process.on('message', async (order: BacklogOrder) => {
    if (order === 'die in drain') dieInDrain();
    else if (order === 'end') await service.stop(10_000).then(() => process.exit());
    else await publish(order.publish);
  });
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
}
