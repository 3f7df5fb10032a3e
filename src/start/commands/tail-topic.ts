import type { Config } from '../../config/config.ts';
import { toEnvelope } from '../../consumer/read-envelope.ts';
import { SvcError } from '../../ground/errors.ts';
import { isolate } from '../../observe/isolate.ts';
import type { Logger } from '../../observe/logger.ts';
import type { TopicRecord } from '../../publish/topic-reader.ts';
import type { TailRange, TopicTail } from '../../publish/topic-tail.ts';
import { openAvroReader, openTopicTail } from '../adapters.ts';
import { registryOptionsOf } from '../serde/registry-options.ts';
import { brokerSettingsOf, goesToKafka } from '../settings.ts';

export type { TailRange, TopicRecord };

/**
 * Gives the records of a topic as they come, batch by batch, until the signal or `range.untilMs`. Rejects with one-line errors.
 */
export function tailTopic(
  config: Config,
  logger: Logger,
  range: TailRange,
  signal: AbortSignal,
  onRecords: (records: readonly TopicRecord[]) => Promise<void>,
): Promise<void> {
  return withTail(config, logger, range, async (tail) => {
    for await (const records of tail.read(signal)) await onRecords(records);
  });
}

/** The newest `count` records that `accept` takes, the oldest of them first. Rejects with one-line errors. */
export async function newestOf(
  config: Config,
  logger: Logger,
  { topic, count, accept }: { topic: string; count: number; accept: (record: TopicRecord) => boolean },
  signal: AbortSignal,
): Promise<readonly TopicRecord[]> {
  let newest: TopicRecord[] = [];
  const byTime = (a: TopicRecord, b: TopicRecord): number =>
    a.partition === b.partition ? a.offset - b.offset : a.timestamp - b.timestamp;
  await withTail(config, logger, { topic, fromMs: 0, untilMs: undefined }, async (tail) => {
    while (newest.length < count && tail.partitionsLeft().length > 0 && !signal.aborted) {
      for await (const records of tail.older(Math.min(count, newestAtOnce), signal)) {
        newest.push(...records.filter(accept));
        if (newest.length > 2 * (count + newestAtOnce)) newest = newest.sort(byTime).slice(-count);
      }
    }
  });
  return newest.sort(byTime).slice(-count);
}

/** Of each partition. */
const newestAtOnce = 1_000;

async function withTail(
  config: Config,
  logger: Logger,
  range: TailRange,
  work: (tail: TopicTail) => Promise<void>,
): Promise<void> {
  const { client } = config.broker;
  if (client !== 'file' && !goesToKafka(config))
    throw new SvcError(
      'SVC_PUBLISH_BROKER',
      `svc reads topics from Kafka and from files; those of "${client}" are for the tools of that broker`,
    );
  // Nothing else does: a connection must not keep an application alive.
  const hold = setInterval(() => {}, 60_000);
  const tail = await openTopicTail(client, { ...brokerSettingsOf(config, logger), ...range });
  try {
    await isolate(() => tail.open());
    await work(tail);
  } finally {
    await tail.close();
    clearInterval(hold);
  }
}

/** What a value says: JSON, a CloudEvent as the envelope that it stands for, or Avro of the registry of the configuration. Rejects with one-line errors. */
export function valueReader(config: Config): (record: TopicRecord) => Promise<unknown> {
  let avro: ReturnType<typeof openAvroReader> | undefined;
  return async ({ value, headers, timestamp }) => {
    if (value.length === 0) return null;
    // Confluent's form begins with a byte that no JSON begins with.
    if (value[0] !== 0) {
      return toEnvelope(parsed(value), headers, timestamp);
    }
    if (config.serde.schemaRegistryUrl === undefined)
      throw new SvcError('SVC_SERIALIZE_NOT_AVRO', 'its value is Avro: set svc.serde.schema-registry-url');
    avro ??= openAvroReader(registryOptionsOf(config));
    return (await avro).read(value);
  };
}

function parsed(value: Buffer): unknown {
  try {
    return JSON.parse(value.toString());
  } catch {
    throw new SvcError('SVC_CONSUMER_NOT_AN_ENVELOPE', 'its value is neither JSON nor Avro');
  }
}
