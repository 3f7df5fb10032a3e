import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, ensureFolder } from './cache.ts';
import { findJava, KAFKA_VERSION, LOGGING } from './kafka-jars.ts';
import { FAST_JVM } from './kafka-node.ts';
import { loggingProperties } from './kafka-settings.ts';
import { type LocalServer, startLocalServer } from './local-server.ts';
import { fetchJars } from './maven.ts';

/** The newest of which Maven Central has the connectors of all databases. */
const DEBEZIUM_VERSION = '3.5.0.Final';
const TITLE = `Kafka Connect ${KAFKA_VERSION} with Debezium ${DEBEZIUM_VERSION}`;

const ARTIFACTS = [
  ...['runtime', 'json', 'transforms'].map((name) => `org.apache.kafka:connect-${name}:${KAFKA_VERSION}`),
  ...['postgres', 'mysql', 'mariadb'].map(
    (name) => `io.debezium:debezium-connector-${name}:${DEBEZIUM_VERSION}`,
  ),
  LOGGING,
];

/** The class path of Kafka Connect with Debezium's connectors, downloaded once (80 files, 50 MB). Throws Unavailable. */
export async function ensureDebezium(
  log: (line: string) => void,
): Promise<{ readonly java: string; readonly classPath: string }> {
  const java = await findJava();
  const folder = await ensureFolder(cacheFolder(`debezium-${DEBEZIUM_VERSION}`), (temporary) => {
    log(`${TITLE}: fetching its jars from Maven Central (50 MB, once)`);
    return fetchJars(temporary, TITLE, ARTIFACTS, log);
  });
  return { java, classPath: join(folder, '*') };
}

export interface DebeziumOptions {
  /** `host:port` of the Kafka that connectors write to. */
  readonly brokers: readonly string[];
  /** For `${env:…}` and `${file:…}` in the configuration of connectors, as a worker in operation has them. */
  readonly workerProperties?: Readonly<Record<string, string>>;
  readonly log?: (line: string) => void;
}

/** A worker of Kafka Connect by itself, whose address takes `POST /connectors`. It converts records as its connectors say. */
export async function startDebezium(options: DebeziumOptions): Promise<LocalServer> {
  const { java, classPath } = await ensureDebezium(options.log ?? (() => {}));
  return startLocalServer({
    name: 'debezium',
    async prepare(folder, port) {
      const settings = {
        'bootstrap.servers': options.brokers.join(','),
        listeners: `http://127.0.0.1:${port}`,
        'offset.storage.file.filename': join(folder, 'offsets'),
        'offset.flush.interval.ms': '1000',
        'plugin.discovery': 'service_load',
        'key.converter': 'org.apache.kafka.connect.json.JsonConverter',
        'value.converter': 'org.apache.kafka.connect.json.JsonConverter',
        ...options.workerProperties,
      };
      const worker = join(folder, 'worker.properties');
      const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
      await writeFile(worker, lines.join(''));
      const logging = join(folder, 'log4j2.properties');
      await writeFile(logging, loggingProperties('info'));
      const jvm = ['-Xmx256m', ...FAST_JVM, `-Dlog4j2.configurationFile=${logging}`, '-cp', classPath];
      return {
        program: java,
        args: [...jvm, 'org.apache.kafka.connect.cli.ConnectStandalone', worker],
      };
    },
    address: (port) => `http://127.0.0.1:${port}`,
    isReady: debeziumProblem,
    portTaken: /Address already in use/i,
  });
}

async function debeziumProblem(address: string): Promise<string | null> {
  try {
    const response = await fetch(`${address}/connectors`, { signal: AbortSignal.timeout(3_000) });
    return response.ok ? null : `it answers with status ${response.status}`;
  } catch (error) {
    const { cause, message } = error as Error;
    return cause instanceof Error ? cause.message : message;
  }
}
