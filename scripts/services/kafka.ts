import { readFile } from 'node:fs/promises';
import { requireDocker } from './docker.ts';
import { ensureKafkaCertificates, KAFKA_PASSWORD, KAFKA_USER } from './kafka-certificates.ts';
import { consoleConsumerFromJars, startKafkaFromJars } from './kafka-from-jars.ts';
import { startKafkaInDocker } from './kafka-in-docker.ts';
import { ensureKafkaJars } from './kafka-jars.ts';
import { type KafkaServer, type StartOptions, waitForKafka } from './kafka-server.ts';
import { Unavailable } from './unavailable.ts';

const HOW_TO_GET_KAFKA = 'install a JDK 17+ and Maven, or start Docker, or set KAFKA_BROKERS=host:port';

const GIVEN_TIMEOUT_MS = 3_000;

/** The brokers named by KAFKA_BROKERS, a list with commas. */
export function brokersFromEnv(): string[] {
  return (process.env.KAFKA_BROKERS ?? '')
    .split(',')
    .map((each) => each.trim())
    .filter(Boolean);
}

/** The brokers of KAFKA_BROKERS, after one has answered; `null` when the variable is not set. Throws {@link Unavailable}. */
export async function useGivenKafka(): Promise<KafkaServer | null> {
  const brokers = brokersFromEnv();
  if (brokers.length === 0) return null;
  const answers = brokers.map((each) => waitForKafka(each, { timeoutMs: GIVEN_TIMEOUT_MS }));
  await Promise.any(answers).catch(() => {
    throw new Unavailable(
      `KAFKA_BROKERS names ${brokers.join(',')}, where no Kafka answers (without TLS and SASL)`,
      'start that Kafka, or unset KAFKA_BROKERS',
    );
  });
  let consumer: KafkaServer['consoleConsumer'] | null = null;
  try {
    consumer = await consoleConsumerFromJars(() => {});
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
  }
  return {
    how: 'given',
    brokers,
    instance: null,
    secureBroker: null,
    consoleConsumer: (args) => {
      if (consumer) return consumer(args);
      throw new Unavailable("Kafka's console consumer needs Java", 'install a JDK 17+ and Maven');
    },
    controls: null,
    stop: async () => {},
  };
}

const SOURCES = [
  { check: ensureKafkaJars, start: startKafkaFromJars },
  { check: requireDocker, start: startKafkaInDocker },
];

/** How a Kafka of our own can be started here: from its jars, else in Docker. Throws {@link Unavailable} with all reasons. */
export async function findKafkaSource(
  log: (line: string) => void,
): Promise<(options: StartOptions) => Promise<KafkaServer>> {
  const reasons: string[] = [];
  for (const { check, start } of SOURCES) {
    try {
      await check(log);
      return start;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      reasons.push(error.message);
    }
  }
  throw new Unavailable(`no Kafka: ${reasons.join('; ')}`, HOW_TO_GET_KAFKA);
}

/** Starts a Kafka that is ours alone. Throws {@link Unavailable}. */
export async function startKafkaServer(options: StartOptions = {}): Promise<KafkaServer> {
  const start = await findKafkaSource(options.log ?? (() => {}));
  return start(options);
}

export interface SecureKafkaServer {
  readonly server: KafkaServer;
  /** The authority a client must trust, as PEM, and the file it is in. */
  readonly ca: string;
  readonly caFile: string;
  readonly user: string;
  readonly password: string;
}

/** Starts a Kafka with a second listener for SASL (SCRAM-SHA-512 and PLAIN) over TLS. From the jars only. */
export async function startSecureKafkaServer(options: StartOptions = {}): Promise<SecureKafkaServer> {
  try {
    const jars = await ensureKafkaJars(options.log ?? (() => {}));
    const { keystore, password: storePassword, caFile } = await ensureKafkaCertificates(jars);
    const [user, password] = [KAFKA_USER, KAFKA_PASSWORD];
    const security = { keystore, password: storePassword, users: { [user]: password } };
    const server = await startKafkaFromJars({ ...options, security });
    return { server, ca: await readFile(caFile, 'utf8'), caFile, user, password };
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    throw new Unavailable(`no Kafka with TLS and SASL: ${error.message}`, 'install a JDK 17+ and Maven');
  }
}
