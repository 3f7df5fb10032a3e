import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { cacheFolder, ensureFolder } from './cache.ts';
import { runCommand } from './commands.ts';
import { fetchJars } from './maven.ts';
import { Unavailable } from './unavailable.ts';

export const KAFKA_VERSION = '4.3.1';
/** Without it a server logs nothing. */
export const LOGGING = 'org.apache.logging.log4j:log4j-slf4j-impl:2.25.4';
const OLDEST_JAVA = 17;
const TITLE = `Apache Kafka ${KAFKA_VERSION}`;

const ARTIFACTS = [
  `org.apache.kafka:kafka_2.13:${KAFKA_VERSION}`,
  `org.apache.kafka:kafka-tools:${KAFKA_VERSION}`,
  LOGGING,
];

export interface KafkaJars {
  /** The java program. */
  readonly java: string;
  /** keytool of the same JDK. */
  readonly keytool: string;
  /** Class path with all of Kafka, its tools among it. */
  readonly classPath: string;
}

/** Apache Kafka from Maven Central, downloaded once (92 files, 55 MB). Throws {@link Unavailable}. */
export async function ensureKafkaJars(log: (line: string) => void): Promise<KafkaJars> {
  const java = await findJava();
  const folder = await ensureFolder(cacheFolder(`kafka-${KAFKA_VERSION}`, 'lib'), (temporary) => {
    log(`${TITLE}: fetching its jars from Maven Central (55 MB, once)`);
    return fetchJars(temporary, TITLE, ARTIFACTS, log);
  });
  return { java, keytool: java.replace(/java(\.exe)?$/, 'keytool$1'), classPath: join(folder, '*') };
}

export async function findJava(): Promise<string> {
  const how = `install a JDK ${OLDEST_JAVA} or newer`;
  const home = process.env.JAVA_HOME ? join(process.env.JAVA_HOME, 'bin', 'java') : '';
  const java = home && existsSync(home) ? home : 'java';
  const { code, stderr } = await runCommand(java, ['-version'], { timeoutMs: 20_000 });
  if (code !== 0) throw new Unavailable('there is no Java', how);
  const version = /version "(?:1\.)?(\d+)/.exec(stderr)?.[1];
  if (Number(version) >= OLDEST_JAVA) return java;
  throw new Unavailable(`Java is version ${version ?? 'unknown'}, Kafka needs ${OLDEST_JAVA}`, how);
}
