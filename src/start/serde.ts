import { eventTypeOf } from '../capture/declare/make-plan.ts';
import type { Config } from '../config/config.ts';
import type { Source } from '../envelope/envelope.ts';
import { loadChunk } from '../ground/lifecycle.ts';
import { type Broker, encodingBroker } from '../publish/broker.ts';
import type * as Avro from '../serialize/avro/avro.ts';
import type * as CloudEvents from '../serialize/cloudevents.ts';
import { jsonSerializer, needsAvro, type Serializer } from '../serialize/serializer.ts';
import { openSchemaRegistry } from './adapters.ts';

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
export function openSerde(config: Config): Serde {
  if (config.serde.envelope === 'cloudevents') {
    const cloudEvents = () => loadChunk(import.meta.url, '../serialize/cloudevents.ts') as typeof CloudEvents;
    return {
      ...json,
      serializerOf: (service) => cloudEvents().createCloudEventsSerializer(config.serde.cloudevents, service),
    };
  }
  if (config.serde.type === 'JSON') return json;
  const { openAvro } = loadChunk(import.meta.url, '../serialize/avro/avro.ts') as typeof Avro;
  const { serializerOf, encode, prepare } = openAvro(config, openSchemaRegistry(config));
  return {
    serializerOf,
    sends: (broker, givesUp = false) => encodingBroker(broker, encode, givesUp),
    prepare() {
      for (const target of config.targets) prepare(eventTypeOf(target), target.topic ?? config.broker.topic);
    },
  };
}
