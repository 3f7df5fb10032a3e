import { eventTypeOf } from '../capture/declare/make-plan.ts';
import type { Config } from '../config/config.ts';
import type { Source } from '../envelope/envelope.ts';
import { SvcError } from '../ground/errors.ts';
import { loadChunk } from '../ground/lifecycle.ts';
import type { Logger } from '../observe/logger.ts';
import { isolate } from '../observe/otel-api.ts';
import type { Broker, BrokerRecord, SendFailure } from '../publish/broker.ts';
import type * as Avro from '../serialize/avro/avro.ts';
import type { SchemaRegistry } from '../serialize/avro/schema-registry.ts';
import type * as CloudEvents from '../serialize/cloudevents.ts';
import { jsonSerializer, needsAvro, type Serializer, schemaHeader } from '../serialize/serializer.ts';
import { openSchemaRegistry } from './adapters.ts';
import { registryOptionsOf } from './settings.ts';

// the form of record values, as configured in `svc.serde`.

interface Serde {
  serializerOf(service: Source): Serializer;
  /** A broker that encodes records that wait for their schema; see `encodingBroker`. */
  sends(broker: Broker, givesUp?: boolean): Broker;
  /** Fetches schema ids for the first events in the background. */
  prepare(): void;
}

const json: Serde = {
  serializerOf: () => jsonSerializer,
  // A record of a process with Avro, from a backup, a dead letter or an outbox row.
  sends: (broker) => encodingBroker(broker, (_, { headers }) => Promise.reject(needsAvro(headers)), true),
  prepare() {},
};

/** JSON loads nothing of the other forms. */
export function openSerde(config: Config, logger: Logger): Serde {
  if (config.serde.envelope === 'cloudevents') {
    const cloudEvents = () => loadChunk(import.meta.url, '../serialize/cloudevents.ts') as typeof CloudEvents;
    return {
      ...json,
      serializerOf: (service) => cloudEvents().createCloudEventsSerializer(config.serde.cloudevents, service),
    };
  }
  if (config.serde.type === 'JSON') return json;
  const { openAvro } = loadChunk(import.meta.url, '../serialize/avro/avro.ts') as typeof Avro;
  const { serializerOf, encode, prepare } = openAvro(config, openRegistry(config), logger);
  return {
    serializerOf,
    sends: (broker, givesUp = false) => encodingBroker(broker, encode, givesUp),
    prepare() {
      for (const target of config.targets) prepare(eventTypeOf(target), target.topic ?? config.broker.topic);
    },
  };
}

/** The value and headers of a record that waited for its schema. */
type Encode = (topic: string, record: BrokerRecord) => Promise<Pick<BrokerRecord, 'value' | 'headers'>>;

/** Dead letters stay JSON around the original record. */
const isWaiting = ({ headers }: BrokerRecord): boolean =>
  headers[schemaHeader] !== undefined && headers.originalTopic === undefined;

/**
 * Encodes each record that waits for its schema before it is sent. `givesUp`: an unavailable registry fails the send for good;
 * otherwise the send may be retried.
 */
function encodingBroker(broker: Broker, encode: Encode, givesUp: boolean): Broker {
  /** The same record at each retry: brokers recognize a batch that they already have by its bytes. */
  const made = new WeakMap<BrokerRecord, BrokerRecord>();
  const encodedOnce = async (topic: string, record: BrokerRecord): Promise<BrokerRecord> => {
    const known = made.get(record);
    if (known !== undefined) return known;
    // Without `writeValue`, which would write the former value.
    const { key, timestamp } = record;
    const encoded: BrokerRecord = { key, timestamp, ...(await encode(topic, record)) };
    made.set(record, encoded);
    return encoded;
  };
  return {
    ...broker,
    async send(topic, partition, records) {
      if (!records.some(isWaiting)) return broker.send(topic, partition, records);
      let encoded: BrokerRecord[];
      try {
        encoded = await Promise.all(
          records.map((record) => (isWaiting(record) ? encodedOnce(topic, record) : record)),
        );
      } catch (error) {
        return { ok: false, failure: failureOf(error, givesUp) };
      }
      return broker.send(topic, partition, encoded);
    },
  };
}

function failureOf(error: unknown, givesUp: boolean): SendFailure {
  if (!(error instanceof SvcError)) {
    const message = 'an unexpected error occurred while the event was encoded';
    return { kind: 'fatal', cause: 'SVC_SERIALIZE_SCHEMA', message };
  }
  const { code, message } = error;
  const passes = code === 'SVC_SERIALIZE_REGISTRY_AWAY' && !givesUp;
  return { kind: passes ? 'retriable' : 'fatal', cause: code, message };
}

/** The schema registry of the configuration. Requests run isolated from the application's context. */
export function openRegistry(config: Config): SchemaRegistry {
  const registry = openSchemaRegistry(registryOptionsOf(config));
  return {
    address: config.serde.schemaRegistryUrl ?? '',
    register: (subject) => isolate(async () => (await registry()).register(subject)),
    lookUp: (subject) => isolate(async () => (await registry()).lookUp(subject)),
    isCompatible: (subject) => isolate(async () => (await registry()).isCompatible(subject)),
    schemaOf: (id) => isolate(async () => (await registry()).schemaOf(id)),
  };
}
