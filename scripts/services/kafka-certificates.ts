import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, ensureFolder } from './cache.ts';
import { lastLines, runCommand } from './commands.ts';
import type { KafkaJars } from './kafka-jars.ts';

const PASSWORD = 'changeit';

/** The user of every secured Kafka that is started here: it listens on loopback, and holds test data only. */
export const KAFKA_USER = 'svc';
export const KAFKA_PASSWORD = 'right-password';

export interface KafkaCertificates {
  /** PKCS12 file with the broker's key and its certificate for 127.0.0.1 and localhost. */
  readonly keystore: string;
  readonly password: string;
  /** PEM file of the authority that signed it, which no system trusts. */
  readonly caFile: string;
}

/** A certificate authority and a broker certificate for tests, made once by the keytool of the JDK. */
export async function ensureKafkaCertificates({ keytool }: KafkaJars): Promise<KafkaCertificates> {
  const folder = await ensureFolder(certificatesFolder(), (temporary) => make(keytool, temporary));
  return { keystore: join(folder, 'broker.p12'), password: PASSWORD, caFile: kafkaCaFile() };
}

/** PEM file of the authority, there as soon as a secured Kafka was started. */
export function kafkaCaFile(): string {
  return join(certificatesFolder(), 'ca.pem');
}

const certificatesFolder = (): string => cacheFolder('kafka-certificates');

async function make(keytool: string, folder: string): Promise<void> {
  const store = ['-keystore', 'broker.p12', '-storetype', 'PKCS12', '-storepass', PASSWORD];
  const key = ['-genkeypair', '-keyalg', 'EC', '-groupname', 'secp256r1', '-validity', '3650', ...store];
  const steps = [
    [...key, '-alias', 'ca', '-dname', 'CN=svc test authority', '-ext', 'bc:c', '-ext', 'ku:c=keyCertSign'],
    [
      ...[...key, '-alias', 'broker', '-dname', 'CN=localhost', '-signer', 'ca'],
      ...['-ext', 'san=ip:127.0.0.1,dns:localhost'],
    ],
    ['-exportcert', '-rfc', '-alias', 'ca', '-file', 'ca.pem', ...store],
    // The authority's own key must not be one that the broker could present.
    ['-delete', '-alias', 'ca', ...store],
  ];
  for (const step of steps) {
    const { code, stdout, stderr } = await runCommand(keytool, step, { cwd: folder, timeoutMs: 30_000 });
    if (code !== 0)
      throw new Error(`keytool ${step[0]} failed (${code}):\n${lastLines(`${stdout}${stderr}`, 4)}`);
  }
  await rm(join(folder, 'broker.p12.old'), { force: true });
}
