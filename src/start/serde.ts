import type { Config } from '../config/config.ts';
import type { Source } from '../envelope/envelope.ts';
import { SvcError } from '../ground/errors.ts';
import { loadChunk } from '../ground/lifecycle.ts';
import type { Logger } from '../observe/logger.ts';
import type { Broker, BrokerRecord, SendFailure } from '../publish/broker.ts';
import { jsonSerializer, needsAvro } from '../serialize/json.ts';
import { type Serializer, schemaHeader } from '../serialize/serializer.ts';

// the form of record values, as `svc.serde` says.

export interface Serde {
  serializerOf(service: Source): Serializer;
  /**
   * A broker that sends no record in another form: what still waits for its schema is encoded first.
   * `givesUp`: where the registry is away it fails for good, else it may be tried again.
   */
  sends(broker: Broker, givesUp?: boolean): Broker;
  /** Gets what the first events need, aside. */
  prepare(): void;
}

const json: Serde = {
  serializerOf: () => jsonSerializer,
  // Of a process with Avro, out of a backup, a dead letter or a row.
  sends: (broker) => encodingBroker(broker, (_, { headers }) => Promise.reject(needsAvro(headers)), true),
  prepare() {},
};

/** JSON loads nothing of the other forms. */
export function openSerde(config: Config, logger: Logger): Serde {
  if (config.serde.envelope === 'cloudevents')
    return { ...json, serializerOf: (service) => cloudEvents().openCloudEvents(config, service) };
  if (config.serde.type === 'JSON') return json;
  const { openAvro } = loadChunk(import.meta.url, './open-avro.ts') as {
    openAvro(config: Config, logger: Logger): Serde;
  };
  return openAvro(config, logger);
}

function cloudEvents(): { openCloudEvents(config: Config, service: Source): Serializer } {
  return loadChunk(import.meta.url, './open-cloudevents.ts') as ReturnType<typeof cloudEvents>;
}

/** Makes the record that is sent. Rejects with an `SvcError` that says why there is none. */
export type Encode = (topic: string, record: BrokerRecord) => Promise<BrokerRecord>;

/** Dead letters stay as they are, JSON around what was to be sent. */
const isWaiting = ({ headers }: BrokerRecord): boolean =>
  headers[schemaHeader] !== undefined && headers.originalTopic === undefined;

/**
 * A broker that encodes what still waits for its schema, wherever it comes from, before it is sent: never in another form.
 * `givesUp`: a registry that is away is the end of a send, else it may be tried again.
 */
export function encodingBroker(broker: Broker, encode: Encode, givesUp: boolean): Broker {
  /** The same record for the same event at each try: that is how a broker knows a batch that it was given before. */
  const made = new WeakMap<BrokerRecord, BrokerRecord>();
  const encodedOnce = async (topic: string, record: BrokerRecord): Promise<BrokerRecord> => {
    const known = made.get(record);
    if (known !== undefined) return known;
    const encoded = await encode(topic, record);
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

/** How the registry of the configuration is reached. */
export const registryOptionsOf = ({ serde }: Config) => ({
  url: serde.schemaRegistryUrl ?? '',
  username: serde.schemaRegistryUsername,
  password: serde.schemaRegistryPassword,
  token: serde.schemaRegistryToken,
  tokenFile: serde.schemaRegistryTokenFile,
  caFile: serde.schemaRegistryCaFile,
});
