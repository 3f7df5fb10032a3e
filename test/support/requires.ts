import { appendFileSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { ensureBao } from '../../scripts/services/bao.ts';
import { runCommand } from '../../scripts/services/commands.ts';
import { ensureDebezium } from '../../scripts/services/debezium.ts';
import { brokersFromEnv, findKafkaSource } from '../../scripts/services/kafka.ts';
import { ensureKafkaJars } from '../../scripts/services/kafka-jars.ts';
import { ensureMoto } from '../../scripts/services/kms.ts';
import { mariadb } from '../../scripts/services/mariadb.ts';
import { mysql } from '../../scripts/services/mysql.ts';
import { postgres } from '../../scripts/services/postgres.ts';
import { ensurePrometheus } from '../../scripts/services/prometheus-programs.ts';
import { ensureVersitygw } from '../../scripts/services/s3.ts';
import { ensureSchemaRegistry } from '../../scripts/services/schema-registry.ts';
import { Unavailable } from '../../scripts/services/unavailable.ts';
import { ensureFastavro } from './avro-readers.ts';
import { ensurePythonCloudEvents } from './cloud-event-readers.ts';
import { findJdk } from './java.ts';
import { startKafka } from './kafka.ts';
import { startKms } from './kms.ts';
import { startMariadb } from './mariadb.ts';
import { startMysql } from './mysql.ts';
import { startPostgres } from './postgres.ts';
import { startVault } from './vault.ts';

/**
 * What a suite needs besides Node:
 * - `kafka`: the shared Kafka, started when the suite begins;
 * - `own-kafka`, `secure-kafka`: that one can be started; the suite starts it;
 * - `prometheus`: promtool, and the server, which the suite starts; of Debian's package; where there is none CI builds them with
 *   Go, elsewhere that takes too long (up to 7 minutes);
 * - `kms`, `vault`: the shared server, started when the suite begins; `kms` with the AWS SDK, an optional peer;
 * - `own-kms`, `own-vault`: that one can be started; the suite starts it;
 * - `own-s3`: that one can be started, and the AWS SDK, an optional peer; the suite starts it;
 * - `postgres`, `mariadb`, `mysql`: the shared server, started when the suite begins, and its driver, an optional peer;
 * - `own-postgres`, `own-mariadb`, `own-mysql`: that one can be started, and the driver; the suite starts it;
 * - `schema-registry`: that one can be started; the suite starts it;
 * - `fastavro`: Avro for Python;
 * - `python-cloudevents`: the official SDK of CloudEvents for Python;
 * - `mounts`: Linux that lets a process have file systems of its own;
 * - `proc`: a system that tells when a process began;
 * - `network`: an address of this machine that is not loopback;
 * - `pipes`: a system with named pipes among its files;
 * - `chromium`: Linux on x64, for which npm has one;
 * - `superuser`: that this process may give files to other users;
 * - `java`: a JDK, its compiler included;
 * - `own-debezium`: Kafka Connect with Debezium's connectors; the suite starts it;
 */
export type Requirement =
  | 'kafka'
  | 'own-kafka'
  | 'secure-kafka'
  | 'kms'
  | 'own-kms'
  | 'vault'
  | 'own-vault'
  | 'own-s3'
  | 'postgres'
  | 'own-postgres'
  | 'mariadb'
  | 'own-mariadb'
  | 'mysql'
  | 'own-mysql'
  | 'schema-registry'
  | 'fastavro'
  | 'python-cloudevents'
  | 'mounts'
  | 'proc'
  | 'network'
  | 'pipes'
  | 'superuser'
  | 'java'
  | 'own-debezium'
  | 'chromium'
  | 'prometheus';

const LONGEST_PREPARATION_MS = 10 * 60_000;
const log = (line: string): void => console.error(line);

const prepare: Record<Requirement, () => Promise<unknown>> = {
  kafka: async () => {
    await startKafka();
    if (brokersFromEnv().length > 0) await ensureKafkaJars(log); // to read back with Kafka's own consumer
  },
  'own-kafka': () => findKafkaSource(log),
  'secure-kafka': () => ensureKafkaJars(log),
  kms: async () => {
    await requirePackage('@aws-sdk/client-kms');
    await startKms();
  },
  'own-kms': async () => {
    await requirePackage('@aws-sdk/client-kms');
    await ensureMoto(log);
  },
  vault: () => startVault(),
  'own-vault': () => ensureBao(log),
  java: async () => findJdk(),
  'own-debezium': () => ensureDebezium(log),
  'own-s3': async () => {
    await requirePackage('@aws-sdk/client-s3');
    await ensureVersitygw(log);
  },
  postgres: () => requirePackage('pg').then(startPostgres),
  'own-postgres': () => requirePackage('pg').then(() => postgres.ensure(log)),
  mariadb: () => requirePackage('mysql2').then(startMariadb),
  'own-mariadb': () => requirePackage('mysql2').then(() => mariadb.ensure(log)),
  mysql: () => requirePackage('mysql2').then(startMysql),
  'own-mysql': () => requirePackage('mysql2').then(() => mysql.ensure(log)),
  'schema-registry': () => ensureSchemaRegistry(log),
  fastavro: () => ensureFastavro(log),
  'python-cloudevents': () => ensurePythonCloudEvents(log),
  mounts: async () => {
    const { code } = await runCommand('unshare', ['--mount', '--map-root-user', 'true'], {
      timeoutMs: 10_000,
    });
    if (code !== 0)
      throw new Unavailable('no mounts of our own here', 'run it on Linux with user namespaces, or as root');
  },
  proc: async () => {
    await access('/proc/self/stat').catch(() => {
      throw new Unavailable('there is no /proc, which tells when a process began', 'run it on Linux');
    });
  },
  network: async () => networkAddress(),
  pipes: async () => {
    if (process.platform === 'win32')
      throw new Unavailable('there are no named pipes in folders', 'run it on Linux or macOS');
  },
  chromium: async () => {
    if (process.platform !== 'linux' || process.arch !== 'x64')
      throw new Unavailable('npm has no Chromium for this machine', 'run it on Linux, on x64');
  },
  superuser: async () => {
    if (process.geteuid?.() !== 0)
      throw new Unavailable(
        'files cannot be given to another user',
        'run it as the superuser, in a container',
      );
  },
  prometheus: async () => {
    if ((await ensurePrometheus({ log, build: isCi() })) === null) {
      throw new Unavailable(
        'there is no Prometheus',
        'install it, or let npx node scripts/services/prometheus-programs.ts build it with Go, once',
      );
    }
  },
};

/** IPv4, of an interface that is not loopback. */
export function networkAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const found = all.find(({ family, internal }) => family === 'IPv4' && !internal);
  if (found === undefined) throw new Unavailable('this machine has no network', 'connect it to one');
  return found.address;
}

async function requirePackage(name: string): Promise<void> {
  await import(name).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new Unavailable(`${name} is not installed`, 'npm install');
  });
}

const prepared = new Map<Requirement, Promise<unknown>>();

/**
 * A `describe` that needs something which not every machine has. Where it is missing, the tests of the suite are shown as
 * pending, and the reason with the remedy goes to standard error and to the file named by SVC_TEST_SKIPS (one JSON line:
 * `suite`, `reason`, `remedy`); where CI is set, the suite fails instead. Only what is missing skips: a server that is there
 * and does not start is a failure everywhere.
 */
export function requiring(
  needs: Requirement | readonly Requirement[],
  title: string,
  suite: (this: Mocha.Suite) => void,
): Mocha.Suite {
  return describe(title, function () {
    before(`needs ${[needs].flat().join(', ')}`, async function () {
      this.timeout(LONGEST_PREPARATION_MS);
      for (const need of [needs].flat()) await skipWithout(need, title, this);
    });
    suite.call(this);
  });
}

/** The same for a single test: `await needing('superuser', this)`. */
export async function needing(need: Requirement, test: Mocha.Context): Promise<void> {
  await skipWithout(need, test.runnable().fullTitle(), test);
}

async function skipWithout(need: Requirement, title: string, context: Mocha.Context): Promise<void> {
  const missing = await findMissing(need);
  if (!missing) return;
  report(title, missing);
  if (isCi()) throw new Error(`${missing.message}. CI is set, so it must be there: ${missing.how}`);
  context.skip();
}

async function findMissing(need: Requirement): Promise<Unavailable | null> {
  const ready = prepared.get(need) ?? prepare[need]();
  prepared.set(need, ready);
  try {
    await ready;
    return null;
  } catch (error) {
    if (error instanceof Unavailable) return error;
    throw error;
  }
}

function report(suite: string, { message, how }: Unavailable): void {
  const file = process.env.SVC_TEST_SKIPS;
  if (file) appendFileSync(file, `${JSON.stringify({ suite, reason: message, remedy: how })}\n`);
  else log(`not run: ${suite}: ${message}. To run it: ${how}`);
}

function isCi(): boolean {
  return !['', '0', 'false'].includes(process.env.CI ?? '');
}
