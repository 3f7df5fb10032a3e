import { describeCluster } from './describe-cluster.ts';
import { startKafkaCluster } from './kafka-cluster.ts';
import { waitForKafka } from './kafka-server.ts';
import type { Service } from './service.ts';
import { Unavailable } from './unavailable.ts';

const GIVEN_TIMEOUT_MS = 3_000;

const given = (): string | undefined => process.env.KAFKA3_BROKERS?.trim() || undefined;

/** A cluster of three nodes. */
export const kafka3: Service = {
  name: 'kafka3',
  variables: 'KAFKA3_BROKERS',
  async useGiven() {
    const brokers = given();
    if (brokers === undefined) return null;
    const answers = brokers.split(',').map((each) => waitForKafka(each, { timeoutMs: GIVEN_TIMEOUT_MS }));
    await Promise.any(answers).catch(() => {
      throw new Unavailable(
        `KAFKA3_BROKERS names ${brokers}, where no Kafka answers (without TLS and SASL)`,
        'start that cluster, or unset KAFKA3_BROKERS',
      );
    });
    return brokers;
  },
  start: async (log) => (await startKafkaCluster({ keep: true, log })).instance,
  // All of them: one that has died would be missed by the next fault.
  answers: ({ address }) =>
    Promise.all(address.split(',').map((each) => describeCluster(each))).then(
      (told) => told.every(({ brokers }) => brokers.length === 3),
      () => false,
    ),
  env(instance) {
    const brokers = given() ?? instance?.address;
    return brokers ? [`export KAFKA3_BROKERS=${brokers}`] : [];
  },
};
