import { readFile } from 'node:fs/promises';
import { connect } from 'node:tls';
import { startSecureKafkaServer } from './kafka.ts';
import { KAFKA_PASSWORD, KAFKA_USER, kafkaCaFile } from './kafka-certificates.ts';
import type { Service } from './service.ts';
import { Unavailable } from './unavailable.ts';

const ANSWER_TIMEOUT_MS = 3_000;

interface Given {
  readonly brokers: string;
  readonly caFile: string;
  readonly user: string;
  readonly password: string;
}

function given(): Given | undefined {
  const {
    KAFKA_SECURE_BROKERS: brokers,
    KAFKA_SECURE_CA_FILE: caFile,
    KAFKA_SECURE_USER: user,
    KAFKA_SECURE_PASSWORD: password,
  } = process.env;
  return brokers && caFile && user && password ? { brokers, caFile, user, password } : undefined;
}

/** One broker with SASL (SCRAM-SHA-512 and PLAIN) over TLS. */
export const kafkaSecure: Service = {
  name: 'kafka-secure',
  variables: 'KAFKA_SECURE_BROKERS, KAFKA_SECURE_CA_FILE, KAFKA_SECURE_USER and KAFKA_SECURE_PASSWORD',
  async useGiven() {
    const named = given();
    if (named === undefined) return null;
    const [first = ''] = named.brokers.split(',');
    const problem = await tlsProblem(first, named.caFile);
    if (problem === null) return named.brokers;
    throw new Unavailable(
      `KAFKA_SECURE_BROKERS names ${first}, which cannot be used: ${problem}`,
      'start that Kafka, or unset KAFKA_SECURE_BROKERS',
    );
  },
  start: async (log) => (await startSecureKafkaServer({ keep: true, log })).server.instance,
  answers: async ({ address }) => (await tlsProblem(address, kafkaCaFile())) === null,
  env(instance) {
    const started = instance && {
      ...{ brokers: instance.address, caFile: kafkaCaFile(), user: KAFKA_USER, password: KAFKA_PASSWORD },
    };
    const used = given() ?? started;
    if (used === undefined) return [];
    return [
      `export KAFKA_SECURE_BROKERS=${used.brokers}`,
      `export KAFKA_SECURE_CA_FILE=${used.caFile}`,
      `export KAFKA_SECURE_USER=${used.user}`,
      `export KAFKA_SECURE_PASSWORD=${used.password}`,
    ];
  },
};

/** Why a port cannot be used with TLS by one who trusts the authority; `null` when it can. */
async function tlsProblem(address: string, caFile: string): Promise<string | null> {
  try {
    const ca = await readFile(caFile);
    const [host, port] = address.split(':');
    await new Promise<void>((resolve, reject) => {
      const socket = connect({ host, port: Number(port), ca }, resolve);
      socket.setTimeout(ANSWER_TIMEOUT_MS, () => socket.destroy(new Error('no answer')));
      socket.once('error', reject);
      socket.once('secureConnect', () => socket.destroy());
    });
    return null;
  } catch (error) {
    return (error as Error).message || String((error as NodeJS.ErrnoException).code);
  }
}
