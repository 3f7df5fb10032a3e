import { SvcError } from '../../ground/errors.ts';
import type { Broker, BrokerRecord, SendFailure } from '../../publish/broker.ts';
import { avroContentType, fromWaiting, schemaHeader } from '../../serialize/avro/avro.ts';
import type { EventCodec } from '../../serialize/avro/event-codec.ts';
import type { SchemaIds } from '../../serialize/avro/schema-ids.ts';

export interface EncodingParts {
  readonly codecOf: (eventType: string) => EventCodec;
  readonly ids: SchemaIds;
}

/** Dead letters stay as they are, JSON around what was to be sent. */
const isWaiting = ({ headers }: BrokerRecord): boolean =>
  headers[schemaHeader] !== undefined && headers.originalTopic === undefined;

/** A broker that encodes what still waits for its schema, wherever it comes from, before it is sent: never in another form. */
export function encodingBroker(broker: Broker, parts: EncodingParts, givesUp: boolean): Broker {
  return {
    ...broker,
    async send(topic, partition, records) {
      if (!records.some(isWaiting)) return broker.send(topic, partition, records);
      let encoded: BrokerRecord[];
      try {
        encoded = await Promise.all(records.map((record) => ready(parts, topic, record)));
      } catch (error) {
        return { ok: false, failure: failureOf(error, givesUp) };
      }
      return broker.send(topic, partition, encoded);
    },
  };
}

async function ready(
  { codecOf, ids }: EncodingParts,
  topic: string,
  record: BrokerRecord,
): Promise<BrokerRecord> {
  if (!isWaiting(record)) return record;
  const { key, value, timestamp } = record;
  const { [schemaHeader]: _, ...headers } = record.headers;
  const codec = codecOf(headers.eventType ?? '');
  const encoded = fromWaiting(codec, await ids.ask(codec, topic), value);
  return { key, value: encoded, timestamp, headers: { ...headers, 'content-type': avroContentType } };
}

function failureOf(error: unknown, givesUp: boolean): SendFailure {
  if (!(error instanceof SvcError)) {
    const message = 'an unexpected error stopped the event before it was encoded';
    return { kind: 'fatal', cause: 'SVC_SERIALIZE_SCHEMA', message };
  }
  const { code, message } = error;
  const passes = code === 'SVC_SERIALIZE_REGISTRY_AWAY' && !givesUp;
  return { kind: passes ? 'retriable' : 'fatal', cause: code, message };
}
