// commands/: operator commands beside the outbox: inspect targets and brokers, recover, decrypt.

import type { Config } from '../../config/config.ts';
import { sleep } from '../../ground/builtins.ts';
import { clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { isolate } from '../../observe/otel-api.ts';
import { type Broker, partitionOf } from '../../publish/broker.ts';
import { type RecoverReport, recover } from '../../publish/recovery/recover.ts';
import type { RecoverySource, StoredEvent, Unreadable } from '../../publish/recovery-source.ts';
import { createDlqSource } from '../../publish/tiers/dlq-message.ts';
import { adapterModules, openBroker, openLocalSource, openTopicReader, readsTopics } from '../adapters.ts';
import { openSerde } from '../serde.ts';
import { topicsOf } from '../settings.ts';

export type { StoredEvent };

export type RecoveryPlace =
  | { readonly kind: 'dlq'; readonly topic: string; readonly group: string }
  | {
      readonly kind: 'local';
      readonly directory: string;
      readonly file: string | undefined;
      readonly withAside: boolean;
    }
  | { readonly kind: 's3' };

interface RecoveryRequest {
  readonly place: RecoveryPlace;
  /** `false`: nothing is sent or marked. */
  readonly isSending: boolean;
  readonly accept: (event: StoredEvent) => boolean;
  /** The destination of events whose topic is unknown. */
  readonly fallbackTopic: string | undefined;
  /** Why a topic must not be written to; one line. */
  readonly refusalOf?: ((topic: string) => string | undefined) | undefined;
  /** Events a second; 0: no limit. */
  readonly ratePerSecond: number;
  /** Limit of accepted events. */
  readonly limit?: number | undefined;
  /** Whether the recovery keeps the process alive. Default: true. */
  readonly keepsAlive?: boolean;
  readonly isStopped: () => boolean;
  /** `total`: events in the source, before filters. `undefined`: unknown. */
  readonly onProgress: (report: RecoverReport, total: number | undefined) => void;
  readonly onEvent?: (event: StoredEvent) => void;
}

export interface RecoveryResult extends RecoverReport {
  /** Its name in messages. */
  readonly source: string;
  /** The limit was reached, and there may be more. */
  readonly isAtLimit: boolean;
}

interface Wanted {
  readonly types: readonly string[] | undefined;
  /** Original topics. */
  readonly topics: readonly string[] | undefined;
  /** When the event was stored, in milliseconds since the epoch; `until` is exclusive. */
  readonly since: number | undefined;
  readonly until: number | undefined;
}

export function acceptedBy({ types, topics, since, until }: Wanted): (event: StoredEvent) => boolean {
  return ({ eventType, topic, storedAt }) =>
    (types === undefined || types.includes(eventType)) &&
    (topics === undefined || (topic !== undefined && topics.includes(topic))) &&
    (since === undefined || storedAt >= since) &&
    (until === undefined || storedAt < until);
}

const holdMs = 60_000;

/** Runs one recovery command. Rejects with one-line errors. */
export async function runRecovery(config: Config, request: RecoveryRequest): Promise<RecoveryResult> {
  // Keeps the process alive, because connections are unref'd.
  const hold = request.keepsAlive === false ? undefined : setInterval(() => {}, holdMs);
  try {
    return await openAndRun(config, request);
  } finally {
    clearInterval(hold);
  }
}

async function openAndRun(config: Config, request: RecoveryRequest): Promise<RecoveryResult> {
  const source = await openSource(config, request);
  const broker = openSerde(config).sends(openBroker(config, { makesTopics: false }));
  try {
    await source.open(request.isSending);
    const total = await source.count();
    const limited = limitedBy(request);
    const report = await isolate(() => run(source, broker, request, limited, total));
    report.skipped -= limited.beyond();
    const seen = report.matched + report.skipped + report.unreadable.length;
    // The stop came during the last batch.
    const isAll = total !== undefined && seen >= total;
    if (isAll) report.isInterrupted = false;
    const isAtLimit = limited.isOver() && !isAll;
    return { ...report, source: source.name, isAtLimit };
  } finally {
    await source.close();
    await broker.close(5_000);
  }
}

/** Events beyond the limit stay in place, as if unread. */
function limitedBy({ limit = Number.POSITIVE_INFINITY, accept }: RecoveryRequest) {
  let accepted = 0;
  let beyond = 0;
  return {
    accept(event: StoredEvent): boolean {
      if (!accept(event)) return false;
      if (accepted < limit) accepted++;
      else beyond++;
      return beyond === 0;
    },
    isOver: () => accepted >= limit,
    beyond: () => beyond,
  };
}

function run(
  source: RecoverySource,
  broker: Broker,
  request: RecoveryRequest,
  limited: ReturnType<typeof limitedBy>,
  total: number | undefined,
): Promise<RecoverReport> {
  return recover({
    source,
    send: broker.send,
    partitionsFor: (topic) => broker.partitionsFor(topic).catch(() => undefined),
    partitionOf,
    accept: limited.accept,
    isOver: limited.isOver,
    fallbackTopic: request.fallbackTopic,
    refusalOf: request.refusalOf,
    ratePerSecond: request.ratePerSecond,
    dryRun: !request.isSending,
    sleep: (ms) => sleep(ms, undefined, { ref: request.keepsAlive !== false }),
    isStopped: request.isStopped,
    onProgress: (report) => request.onProgress(report, total),
    ...(request.onEvent && { onEvent: request.onEvent }),
  });
}

async function openSource(
  config: Config,
  { place, keepsAlive = true }: RecoveryRequest,
): Promise<RecoverySource> {
  const { client } = config.broker;
  if (place.kind === 'local') {
    const { directory, file, withAside } = place;
    return openLocalSource({ directory, file, withAside, now: clock.now });
  }
  if (place.kind === 's3') return (await adapterModules.s3(config)).source();
  if (!readsTopics(client))
    throw new SvcError(
      'SVC_PUBLISH_BROKER',
      `svc reads dead letters from Kafka and from files only. For those of "${client}", use the tools of that broker`,
    );
  const { topic, group } = place;
  return createDlqSource(topic, await openTopicReader(config, { topic, group, keepsAlive }));
}

interface ExportRequest {
  readonly directory: string;
  readonly file: string | undefined;
  /** A folder that is empty or does not exist. */
  readonly out: string;
  readonly format: 'event' | 'record';
  readonly accept: (event: StoredEvent) => boolean;
  readonly isStopped: () => boolean;
  /** `total`: events in the source, before filters. `undefined`: unknown. */
  readonly onProgress: (report: ExportReport, total: number | undefined) => void;
}

interface ExportReport {
  exported: number;
  /** Left out by the filters. */
  skipped: number;
  readonly unreadable: Unreadable[];
  /** It was stopped, and there may be more. */
  isInterrupted: boolean;
}

const exportedAtOnce = 500;

/** Copies a backup folder to files, one per event. The source is not marked. Rejects with one-line errors. */
export async function exportBackup(request: ExportRequest): Promise<ExportReport> {
  const { directory, file, accept } = request;
  const source = await openLocalSource({ directory, file, now: clock.now });
  const report: ExportReport = { exported: 0, skipped: 0, unreadable: [], isInterrupted: false };
  await source.open(false);
  try {
    const { localBackup } = await adapterModules.localBackup();
    const files = localBackup.eventFiles(request.out, request.format);
    const total = await source.count();
    for await (const { events, unreadable } of source.read(exportedAtOnce)) {
      const accepted = events.filter(accept);
      const tooLarge = await files.store(accepted);
      report.exported += accepted.length - tooLarge.length;
      report.skipped += events.length - accepted.length;
      report.unreadable.push(...tooLarge, ...unreadable);
      request.onProgress(report, total);
      const seen = report.exported + report.skipped + report.unreadable.length;
      report.isInterrupted = request.isStopped() && seen < (total ?? seen + 1);
      if (report.isInterrupted) break;
    }
    return report;
  } finally {
    await source.close();
  }
}

/** Limit of reasons, because the text contains the topic and stored events may name any number. */
const maxNamed = 100;

/**
 * Why events are not sent to a topic. Stored events may name any topic, and would be sent with the rights of the user who runs svc.
 * Only topics of the configuration and of the request are allowed, and never a dead letter topic.
 *
 * @param naming how the request names a topic: `--topic`, or `"topic":`
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
    if (deadLetterTopics.includes(topic)) return `topic "${topic}" is the dead letter topic itself`;
    if (allowed.has(topic)) return undefined;
    if (told.size >= maxNamed && !told.has(topic))
      return `more than ${maxNamed} topics that the configuration does not have: the list names them, ${naming} sends one`;
    told.add(topic);
    return `the configuration has no topic "${topic}". If the events belong there, send them with ${naming} ${topic}`;
  };
}
