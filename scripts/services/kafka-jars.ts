import { existsSync } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, ensureFolder } from './cache.ts';
import { lastLines, runCommand } from './commands.ts';
import { Unavailable } from './unavailable.ts';

export const KAFKA_VERSION = '4.3.1';
const OLDEST_JAVA = 17;
const DOWNLOAD_TIMEOUT_MS = 5 * 60_000;

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>svc</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>${KAFKA_VERSION}</version></dependency>
    <!-- without it the broker logs nothing -->
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.4</version></dependency>
  </dependencies>
</project>
`;

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
  const folder = await ensureFolder(cacheFolder(`kafka-${KAFKA_VERSION}`, 'lib'), (temporary) =>
    download(temporary, log),
  );
  return { java, keytool: java.replace(/java(\.exe)?$/, 'keytool$1'), classPath: join(folder, '*') };
}

async function findJava(): Promise<string> {
  const how = `install a JDK ${OLDEST_JAVA} or newer`;
  const home = process.env.JAVA_HOME ? join(process.env.JAVA_HOME, 'bin', 'java') : '';
  const java = home && existsSync(home) ? home : 'java';
  const { code, stderr } = await runCommand(java, ['-version'], { timeoutMs: 20_000 });
  if (code !== 0) throw new Unavailable('there is no Java', how);
  const version = /version "(?:1\.)?(\d+)/.exec(stderr)?.[1];
  if (Number(version) >= OLDEST_JAVA) return java;
  throw new Unavailable(`Java is version ${version ?? 'unknown'}, Kafka needs ${OLDEST_JAVA}`, how);
}

async function download(folder: string, log: (line: string) => void): Promise<void> {
  log(`Apache Kafka ${KAFKA_VERSION}: fetching its jars from Maven Central (55 MB, once)`);
  const pom = join(folder, 'pom.xml');
  await writeFile(pom, POM);
  let downloaded = 0;
  let told = Date.now();
  const { code, stdout, stderr } = await runCommand(
    'mvn',
    [
      '-B',
      '-f',
      pom,
      'dependency:copy-dependencies',
      '-DincludeScope=runtime',
      `-DoutputDirectory=${folder}`,
    ],
    {
      timeoutMs: DOWNLOAD_TIMEOUT_MS,
      onLine: (line) => {
        if (line.includes('Downloaded from')) downloaded++;
        if (Date.now() - told < 2_000) return;
        told = Date.now();
        log(`Apache Kafka ${KAFKA_VERSION}: ${downloaded} files downloaded`);
      },
    },
  );
  if (code === 127) throw new Unavailable('there is no Maven (mvn)', 'install Maven');
  if (code !== 0) {
    throw new Unavailable(
      `Maven could not fetch Kafka (exit code ${code}):\n${lastLines(`${stdout}\n${stderr}`, 6)}`,
      'check the network and the settings of Maven',
    );
  }
  const jars = (await readdir(folder)).filter((name) => name.endsWith('.jar')).length;
  log(`Apache Kafka ${KAFKA_VERSION}: ${jars} jars ready`);
}
