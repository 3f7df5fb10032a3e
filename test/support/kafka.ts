import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs, { type Admin } from 'kafkajs';
import { startKafkaServer, startSecureKafkaServer, useGivenKafka } from '../../scripts/services/kafka.ts';
import type { KafkaControls, KafkaServer } from '../../scripts/services/kafka-server.ts';
import { closeReader, type ReadRecord, readByConsole, readRecords } from './kafka-records.ts';

export type { ReadRecord };

export interface TestKafka {
  readonly brokers: string[];
  /** Makes a topic and waits for the leaders of its partitions (default 1): the first send to it then succeeds. */
  createTopic(
    name: string,
    options?: { partitions?: number; config?: Record<string, string> },
  ): Promise<void>;
  /** How many records a topic holds. */
  count(topic: string): Promise<number>;
  /**
   * Waits until a topic holds at least `count` records (default 0) and reads ALL it then holds, so that one too many shows,
   * with Kafka's own consumer, or its console consumer. In the order of partitions and offsets. Rejects after `timeoutMs` (default 15 s).
   */
  read(
    topic: string,
    options?: { count?: number; timeoutMs?: number; byConsole?: boolean },
  ): Promise<ReadRecord[]>;
  /** Ends the broker and removes its data. The shared one goes on until the end of the run. */
  stop(): Promise<void>;
}

/** A broker that a test may hurt. */
export interface OwnKafka extends TestKafka, KafkaControls {}

export interface SecureKafka extends OwnKafka {
  /** `host:port` of SASL over TLS; `brokers` stay plain, for looking from the inside. */
  readonly secureBrokers: string[];
  /** PEM of the authority to trust, and the file it is in. Nothing else on the machine trusts it. */
  readonly ca: string;
  readonly caFile: string;
  /** Holds a folder for each partition: `<topic>-<number>`. */
  readonly dataFolder: string;
  /** For SCRAM-SHA-512 and for PLAIN. */
  readonly user: string;
  readonly password: string;
}

let shared: Promise<KafkaServer> | null = null;
const own = new Set<KafkaServer>();
const LONGEST_ADMIN_MS = 10_000;
const log = (line: string): void => console.error(line);

/** The Kafka that all suites of this run share: the one of KAFKA_BROKERS, or one that is started at the first call. */
export async function startKafka(): Promise<TestKafka> {
  shared ??= useGivenKafka().then((given) => given ?? startKafkaServer({ log }));
  return { ...testKafka(await shared), stop: async () => {} };
}

/** A Kafka of your own, to stop, freeze and start again. Never the one of KAFKA_BROKERS. */
export async function startOwnKafka(): Promise<OwnKafka> {
  return ownKafka(await startKafkaServer({ log }));
}

/** A Kafka of your own that also listens for SASL over TLS. */
export async function startSecureKafka(): Promise<SecureKafka> {
  const { server, ca, caFile, user, password } = await startSecureKafkaServer({ log });
  const secureBrokers = server.secureBroker ? [server.secureBroker] : [];
  const dataFolder = join(server.instance?.folder ?? '', 'data');
  return { ...ownKafka(server), dataFolder, secureBrokers, ca, caFile, user, password };
}

function ownKafka(server: KafkaServer): OwnKafka {
  if (!server.controls) throw new Error('this Kafka is not ours to control');
  own.add(server);
  const stop = async (): Promise<void> => {
    own.delete(server);
    await server.stop();
  };
  return { ...testKafka(server), ...server.controls, stop };
}

function testKafka(server: KafkaServer): TestKafka {
  const brokers = [...server.brokers];
  const count = (topic: string): Promise<number> =>
    withAdmin(brokers, async (admin) => {
      const offsets = await admin.fetchTopicOffsets(topic);
      return offsets.reduce((sum, { high, low }) => sum + Number(high) - Number(low), 0);
    });
  return {
    brokers,
    count,
    stop: () => server.stop(),
    async createTopic(name, { partitions = 1, config = {} } = {}) {
      const configEntries = Object.entries(config).map(([key, value]) => ({ name: key, value }));
      await withAdmin(brokers, async (admin) => {
        await admin.createTopics({
          waitForLeaders: true,
          topics: [{ topic: name, numPartitions: partitions, configEntries }],
        });
        // A second try, where the first one did not wait long enough, waits for nothing: the topic is there already.
        await admin.fetchTopicMetadata({ topics: [name] });
      });
    },
    async read(topic, { count: least = 0, timeoutMs = 15_000, byConsole = false } = {}) {
      const end = Date.now() + timeoutMs;
      let there = await count(topic);
      while (there < least) {
        if (Date.now() > end)
          throw new Error(`${topic} holds ${there} records after ${timeoutMs} ms, not ${least}`);
        await sleep(50);
        there = await count(topic);
      }
      if (there === 0) return [];
      return (byConsole ? readByConsole : readRecords)(server, { topic, count: there, timeoutMs });
    },
  };
}

async function withAdmin<T>(brokers: string[], work: (admin: Admin) => Promise<T>): Promise<T> {
  const client = new kafkajs.Kafka({ brokers, clientId: 'svc-tests', logLevel: kafkajs.logLevel.NOTHING });
  const admin = client.admin();
  await admin.connect();
  const end = Date.now() + LONGEST_ADMIN_MS;
  try {
    for (;;) {
      try {
        return await work(admin);
      } catch (error) {
        if (!isPassing(error as KafkaJSError) || Date.now() > end) throw error;
        await sleep(100);
      }
    }
  } finally {
    await admin.disconnect();
  }
}

type KafkaJSError = Error & { retriable?: boolean; type?: string; errors?: readonly KafkaJSError[] };

/** A broker that has just come back does not lead its partitions yet, and one that hung is not counted for a moment. */
function isPassing({ retriable = false, type, errors = [] }: KafkaJSError): boolean {
  return retriable || type === 'INVALID_REPLICATION_FACTOR' || errors.some(isPassing);
}

// At the end of the run, whoever used it first. A run that is killed leaves nothing either: see scripts/services/guard.ts.
if (typeof after === 'function') {
  after('stop Kafka', async () => {
    closeReader();
    const servers = [...own, ...(shared ? [await shared.catch(() => null)] : [])];
    await Promise.all(servers.map((server) => server?.stop()));
  });
}
