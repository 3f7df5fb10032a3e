import { describeCluster } from './describe-cluster.ts';
import { brokersFromEnv, startKafkaServer, useGivenKafka } from './kafka.ts';
import { kmsEndpointFromEnv, kmsProblem, startKmsServer, useGivenKms } from './kms.ts';
import type { Service } from './service.ts';
import { startVaultServer, useGivenVault, VAULT_ROOT_TOKEN, vaultFromEnv, vaultProblem } from './vault.ts';

const kafka: Service = {
  name: 'kafka',
  variables: 'KAFKA_BROKERS',
  useGiven: async () => (await useGivenKafka())?.brokers.join(',') ?? null,
  start: async (log) => (await startKafkaServer({ keep: true, log })).instance,
  answers: ({ address }) =>
    describeCluster(address).then(
      () => true,
      () => false,
    ),
  env(instance) {
    const brokers = brokersFromEnv().join(',') || instance?.address;
    return brokers ? [`export KAFKA_BROKERS=${brokers}`] : [];
  },
};

const kms: Service = {
  name: 'kms',
  variables: 'KMS_ENDPOINT',
  useGiven: async () => (await useGivenKms())?.endpoint ?? null,
  start: async (log) => (await startKmsServer({ keep: true, log })).local?.instance ?? null,
  answers: async ({ address }) => (await kmsProblem(address)) === null,
  env(instance) {
    const endpoint = kmsEndpointFromEnv() ?? instance?.address;
    return endpoint ? [`export KMS_ENDPOINT=${endpoint}`] : [];
  },
};

const vault: Service = {
  name: 'vault',
  variables: 'VAULT_ADDR and VAULT_TOKEN',
  useGiven: async () => (await useGivenVault())?.address ?? null,
  start: async (log) => (await startVaultServer({ keep: true, log })).local?.instance ?? null,
  answers: async ({ address }) => (await vaultProblem(address, null)) === null,
  env(instance) {
    const given = vaultFromEnv();
    const address = given?.address ?? instance?.address;
    if (!address) return [];
    return [`export VAULT_ADDR=${address}`, `export VAULT_TOKEN=${given?.token ?? VAULT_ROOT_TOKEN}`];
  },
};

/** All services, the default one first. */
export const services: readonly Service[] = [kafka, kms, vault];
