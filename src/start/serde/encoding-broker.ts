import { SvcError } from '../../ground/errors.ts';
import type { Broker, BrokerRecord, SendFailure } from '../../publish/broker.ts';
import { schemaHeader } from '../../serialize/serializer.ts';

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
    const message = 'an unexpected error stopped the event before it was encoded';
    return { kind: 'fatal', cause: 'SVC_SERIALIZE_SCHEMA', message };
  }
  const { code, message } = error;
  const passes = code === 'SVC_SERIALIZE_REGISTRY_AWAY' && !givesUp;
  return { kind: passes ? 'retriable' : 'fatal', cause: code, message };
}
