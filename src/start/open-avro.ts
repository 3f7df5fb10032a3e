import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { systemClock } from '../ground/clock.ts';
import type { Logger } from '../observe/logger.ts';
import { isolate } from '../observe/otel-api.ts';
import type { BrokerRecord } from '../publish/broker.ts';
import {
  avroContentType,
  createAvroSerializer,
  createCodecs,
  createSchemaIds,
  type EventCodec,
  fromWaiting,
} from '../serialize/avro/avro.ts';
import type { SchemaRegistry } from '../serialize/avro/schema-registry.ts';
import { type Serializer, schemaHeader } from '../serialize/serializer.ts';
import { openSchemaRegistry } from './adapters.ts';
import { eventTypeOf, registryOptionsOf } from './settings.ts';

/** Avro with the registry of the configuration. */
export function openAvro(config: Config, logger: Logger) {
  const { subjectNameStrategy: strategy, autoRegister, onRegistryUnavailable } = config.serde;
  const where = onRegistryUnavailable === 'wait' ? 'wait for it' : 'go to the backup';
  const codecOf = codecsOf(config);
  const ids = createSchemaIds({
    ...{ registry: openRegistry(config), strategy, autoRegister, clock: systemClock },
    onAway: (message) => logger.error(`serde: events without a known schema id ${where}: ${message}`),
    onBack: () => logger.info('serde: the schema registry answers again'),
    onRefused: ({ code, message }) => logger.error(`serde: ${message}`, { code }),
  });
  const mayWait = !config.outbox.enabled || config.outbox.publisherEnabled;
  /** Makes the record to send. Rejects with an `SvcError`. */
  const encode = async (
    topic: string,
    { key, value, timestamp, headers: given }: BrokerRecord,
  ): Promise<BrokerRecord> => {
    const { [schemaHeader]: _, ...headers } = given;
    const codec = codecOf(headers.eventType ?? '');
    const encoded = fromWaiting(codec, await ids.ask(codec, topic), value);
    return { key, value: encoded, timestamp, headers: { ...headers, 'content-type': avroContentType } };
  };
  return {
    serializerOf: (): Serializer => createAvroSerializer({ codecOf, ids, mayWait }),
    encode,
    prepare(): void {
      for (const target of config.targets) {
        try {
          ids.ask(codecOf(eventTypeOf(target)), target.topic ?? config.broker.topic).catch(() => {});
        } catch (error) {
          logger.error(`serde: ${(error as Error).message}`);
        }
      }
    },
  };
}

/** Requests run isolated from the application's context. */
export function openRegistry(config: Config): SchemaRegistry {
  const { serde } = config;
  const registry = openSchemaRegistry(registryOptionsOf(config));
  return {
    address: serde.schemaRegistryUrl ?? '',
    register: (subject) => isolate(async () => (await registry()).register(subject)),
    lookUp: (subject) => isolate(async () => (await registry()).lookUp(subject)),
    isCompatible: (subject) => isolate(async () => (await registry()).isCompatible(subject)),
    schemaOf: (id) => isolate(async () => (await registry()).schemaOf(id)),
  };
}

/** Uses the files of `svc.serde.schemas`. */
export function codecsOf({ serde: { schemas }, baseDir }: Config): (eventType: string) => EventCodec {
  return createCodecs((eventType) => {
    const file = schemas?.[eventType]?.[0];
    return file === undefined ? undefined : resolve(baseDir, file);
  });
}
