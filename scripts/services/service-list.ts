import { databaseServices } from './database-services.ts';
import { describeCluster } from './describe-cluster.ts';
import { brokersFromEnv, startKafkaServer, useGivenKafka } from './kafka.ts';
import { kafkaSecure } from './kafka-secure-service.ts';
import { kafka3 } from './kafka3-service.ts';
import { kmsEndpointFromEnv, kmsProblem, startKmsServer, useGivenKms } from './kms.ts';
import {
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  s3EndpointFromEnv,
  s3Problem,
  startS3Server,
  useGivenS3,
} from './s3.ts';
import {
  schemaRegistryApi,
  schemaRegistryFromEnv,
  schemaRegistryProblem,
  startSchemaRegistryServer,
  useGivenSchemaRegistry,
} from './schema-registry.ts';
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

const s3: Service = {
  name: 's3',
  variables: 'S3_ENDPOINT, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
  useGiven: async () => (await useGivenS3())?.endpoint ?? null,
  start: async (log) => (await startS3Server({ keep: true, log })).local?.instance ?? null,
  answers: async ({ address }) => (await s3Problem(address)) === null,
  env(instance) {
    const given = s3EndpointFromEnv();
    if (given !== undefined) return [`export S3_ENDPOINT=${given}`];
    if (instance === undefined) return [];
    return [
      `export S3_ENDPOINT=${instance.address}`,
      `export AWS_ACCESS_KEY_ID=${S3_ACCESS_KEY}`,
      `export AWS_SECRET_ACCESS_KEY=${S3_SECRET_KEY}`,
    ];
  },
};

const schemaRegistry: Service = {
  name: 'schema-registry',
  variables: 'SCHEMA_REGISTRY_URL',
  useGiven: async () => (await useGivenSchemaRegistry())?.url ?? null,
  start: async (log) => (await startSchemaRegistryServer({ keep: true, log })).local?.instance ?? null,
  answers: async ({ address }) => (await schemaRegistryProblem(`${address}${schemaRegistryApi}`)) === null,
  env(instance) {
    const url = schemaRegistryFromEnv() ?? (instance && `${instance.address}${schemaRegistryApi}`);
    return url ? [`export SCHEMA_REGISTRY_URL=${url}`] : [];
  },
};

/** All services, the default one first. */
export const services: readonly Service[] = [
  ...[kafka, kafka3, kafkaSecure, kms, vault, s3, schemaRegistry],
  ...databaseServices,
];
