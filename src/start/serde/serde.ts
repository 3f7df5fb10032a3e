// serde/: the form of record values, as `svc.serde` says.

import type { Config } from '../../config/config.ts';
import type { Source } from '../../envelope/envelope.ts';
import { loadChunk } from '../../ground/load-chunk.ts';
import type { Logger } from '../../observe/logger.ts';
import type { Broker } from '../../publish/broker.ts';
import { jsonSerializer, needsAvro } from '../../serialize/json.ts';
import type { Serializer } from '../../serialize/serializer.ts';
import { encodingBroker } from './encoding-broker.ts';

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
