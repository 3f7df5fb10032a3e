import type { Config } from '../../config/config.ts';
import { createDecryptionKeys, type DecryptionKeys } from '../../consumer/decryption-keys.ts';
import { toEnvelope } from '../../consumer/read-envelope.ts';
import { SvcError } from '../../ground/errors.ts';
import { parseRulePath } from '../../ground/pii-rule.ts';
import type { Logger } from '../../observe/logger.ts';
import { isolate } from '../../observe/otel-api.ts';
import { type ConfiguredKey, defaultKeyId } from '../../protect/keys/key-ring.ts';
import type { TailRange, TopicRecord, TopicTail } from '../../publish/topic-reader.ts';
import { openAvroReader, openTopicTail } from '../adapters.ts';
import { configuredKeys, openProvider } from '../keys.ts';
import { registryOptionsOf } from '../serde.ts';
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

/** Reasons are kept by their text: whoever writes dead letters may name any number of topics. */
const mostNamed = 100;

/**
 * Why events are not sent to a topic: a dead letter, a file or an object names whichever it likes, and is sent with the rights of
 * whoever runs svc. Only topics of the configuration and those that are named by whoever asks are written to, and never one of dead
 * letters, where it would come back.
 *
 * @param naming how a topic is named: `--topic`, or `"topic":`
 */
export function createTopicRefusal(
  config: Config,
  named: readonly (string | undefined)[],
  deadLetterTopics: readonly (string | undefined)[],
  naming = '--topic',
): (topic: string) => string | undefined {
  const allowed = new Set([...topicsOf(config), ...named]);
  const told = new Set<string>();
  return (topic) => {
    if (deadLetterTopics.includes(topic)) return `topic "${topic}" is that of the dead letters themselves`;
    if (allowed.has(topic)) return undefined;
    if (told.size >= mostNamed && !told.has(topic))
      return `more than ${mostNamed} topics that the configuration does not have: the list names them, ${naming} sends one`;
    told.add(topic);
    return `the configuration has no topic "${topic}": if they belong there, send them with ${naming} ${topic}`;
  };
}

/** Those that the configuration sends events to. */
export function topicsOf({ broker, targets }: Config): string[] {
  const named = [broker.topic, ...targets.map(({ topic }) => topic)];
  return [...new Set(named.filter((topic) => topic !== undefined && topic !== ''))] as string[];
}

interface DecryptionRequest {
  /** `undefined`: none is used. */
  readonly config: Config | undefined;
  /** Keys beside those of the configuration, which they go before where ids are the same. */
  readonly keys: readonly ConfiguredKey[];
  /** As in `PII_ENCRYPTION_KEY`: the key with the id `default`. Part of the configuration where there is one. */
  readonly defaultKey: string | undefined;
  /** Ids to ask a key service for, beside those that the configuration names. */
  readonly keyIds: readonly string[];
}

/** Everything that can open ciphertexts, as one command needs it. Throws what is wrong with the keys. */
export function openDecryption({ config, keys, defaultKey, keyIds }: DecryptionRequest): DecryptionKeys {
  const ofConfig = config === undefined ? ofEnvironment(defaultKey) : configuredKeys(config.pii.crypto);
  const own = new Set(keys.map(({ id }) => id));
  // For reading, no key is the primary one.
  const all = [...keys, ...ofConfig.filter(({ id }) => !own.has(id))].map(({ id, key }) => ({ id, key }));
  const kms = config?.pii.kms;
  if (config === undefined || kms?.enabled !== true || kms.type === undefined) {
    if (keyIds.length > 0)
      throw new SvcError(
        'SVC_PROTECT_KEY_LIST',
        '--key-id is for keys of a service, and the configuration has none (svc.pii.kms)',
      );
    return createDecryptionKeys({ keys: all });
  }
  const ids = [...new Set([...namedKeyIds(config), ...keyIds])];
  if (ids.length === 0)
    throw new SvcError(
      'SVC_PROTECT_KEY_LIST',
      'no key of the key service is named: set svc.pii.kms.keys, or give --key-id',
    );
  return createDecryptionKeys({ keys: all, provider: openProvider(kms, kms.type), keyIds: ids });
}

function ofEnvironment(key: string | undefined): ConfiguredKey[] {
  return key === undefined ? [] : [{ id: defaultKeyId, key }];
}

/** Keys that rules encrypt with, and those that the configuration has names for: marks of classes can use them. */
export function namedKeyIds({ pii, targets }: Config): string[] {
  const { keys, aws, vault, type } = pii.kms;
  const hasDefault = type === 'aws' ? aws.defaultKeyArn : vault.defaultKeyPath;
  const rules = [...pii.fields, ...targets.flatMap((target) => target.pii ?? [])];
  return [
    ...(hasDefault === undefined ? [] : [defaultKeyId]),
    ...Object.keys(keys ?? {}),
    ...rules.filter(({ strategy }) => strategy === 'ENCRYPT').map(({ keyId }) => keyId ?? defaultKeyId),
  ];
}

/** Where rules of the configuration encrypt; marks of classes and rules in code it does not know. */
export function encryptedFields({ pii, targets }: Config): readonly string[] {
  const rules = [...pii.fields, ...targets.flatMap((target) => target.pii ?? [])];
  const paths = rules.filter(({ strategy }) => strategy === 'ENCRYPT').map(({ path }) => path);
  return [...paths, ...paths.map(underValue).filter((path) => typeof parseRulePath(path) !== 'string')];
}

/** A payload that is no object is published as `{ "value": … }`. */
function underValue(path: string): string {
  const bare = path.replace(/^\$(\.|(?=\[))/, '');
  return bare.startsWith('[') ? `value${bare}` : `value.${bare}`;
}
