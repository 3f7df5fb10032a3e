// commands/: what the command line does beside the outbox: it looks at targets and brokers, restores and decrypts.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../config/config.ts';
import { systemClock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { isolate } from '../../observe/isolate.ts';
import type { Logger } from '../../observe/logger.ts';
import type { Broker } from '../../publish/broker.ts';
import { partitionOf } from '../../publish/main/partitioner.ts';
import { createDlqSource } from '../../publish/recovery/dlq-source.ts';
import { type RecoverReport, recover } from '../../publish/recovery/recover.ts';
import type { RecoverySource, StoredEvent } from '../../publish/recovery-source.ts';
import { openBroker, openLocalSource, openS3Source, openTopicReader } from '../adapters.ts';
import { openSerde } from '../serde/serde.ts';
import { brokerSettingsOf, goesToKafka } from '../settings.ts';

export type { RecoverReport, StoredEvent };

export type RecoveryPlace =
  | { readonly kind: 'dlq'; readonly topic: string; readonly group: string }
  | {
      readonly kind: 'local';
      readonly directory: string;
      readonly file: string | undefined;
      readonly withAside: boolean;
    }
  | { readonly kind: 's3' };

export interface RecoveryRequest {
  readonly place: RecoveryPlace;
  /** `false`: nothing is sent and nothing is marked. */
  readonly isSending: boolean;
  readonly accept: (event: StoredEvent) => boolean;
  /** Where events go whose topic is not known. */
  readonly fallbackTopic: string | undefined;
  /** Why nothing is written to a topic; one line. */
  readonly refusalOf?: ((topic: string) => string | undefined) | undefined;
  /** Events a second; 0: no limit. */
  readonly ratePerSecond: number;
  readonly isStopped: () => boolean;
  /** `total` is how many events lie there, filters aside. */
  readonly onProgress: (report: RecoverReport, total: number | undefined) => void;
  readonly onEvent: (event: StoredEvent) => void;
}

export interface RecoveryResult extends RecoverReport {
  /** As messages name it. */
  readonly source: string;
}

const holdMs = 60_000;

/** Those that the configuration sends events to. */
export function topicsOf({ broker, targets }: Config): string[] {
  const named = [broker.topic, ...targets.map(({ topic }) => topic)];
  return [...new Set(named.filter((topic) => topic !== undefined && topic !== ''))] as string[];
}

/** Builds what one recovery command needs, runs it, and takes it down again. Rejects with one-line errors. */
export async function runRecovery(
  config: Config,
  logger: Logger,
  request: RecoveryRequest,
): Promise<RecoveryResult> {
  // Nothing else does: a connection must not keep an application alive.
  const hold = setInterval(() => {}, holdMs);
  try {
    return await openAndRun(config, logger, request);
  } finally {
    clearInterval(hold);
  }
}

async function openAndRun(config: Config, logger: Logger, request: RecoveryRequest): Promise<RecoveryResult> {
  const source = await openSource(config, logger, request.place);
  const settings = { ...brokerSettingsOf(config, logger), makesTopics: false as const };
  const broker = openSerde(config, logger).sends(openBroker(config.broker.client, settings));
  try {
    await source.open(request.isSending);
    const total = await source.count();
    const report = await isolate(() => run(source, broker, request, total));
    const seen = report.matched + report.skipped + report.unreadable.length;
    // It was told to stop while the last of them was under way.
    if (total !== undefined && seen >= total) report.isInterrupted = false;
    return { ...report, source: source.name };
  } finally {
    await source.close();
    await broker.close(5_000);
  }
}

function run(
  source: RecoverySource,
  broker: Broker,
  request: RecoveryRequest,
  total: number | undefined,
): Promise<RecoverReport> {
  return recover({
    source,
    send: broker.send,
    partitionsFor: (topic) => broker.partitionsFor(topic).catch(() => undefined),
    partitionOf,
    accept: request.accept,
    fallbackTopic: request.fallbackTopic,
    refusalOf: request.refusalOf,
    ratePerSecond: request.ratePerSecond,
    dryRun: !request.isSending,
    clock: systemClock,
    sleep,
    isStopped: request.isStopped,
    onProgress: (report) => request.onProgress(report, total),
    onEvent: request.onEvent,
  });
}

async function openSource(config: Config, logger: Logger, place: RecoveryPlace): Promise<RecoverySource> {
  const { client, backup } = config.broker;
  if (place.kind === 'local') {
    const { directory, file, withAside } = place;
    return openLocalSource({ directory, file, withAside, now: systemClock.now });
  }
  if (place.kind === 's3') {
    const { s3Bucket: bucket = '', s3Prefix: prefix, s3Region: region, s3Endpoint: endpoint } = backup;
    return openS3Source({ bucket, prefix, region, endpoint });
  }
  if (client !== 'file' && !goesToKafka(config))
    throw new SvcError(
      'SVC_PUBLISH_BROKER',
      `svc reads dead letters from Kafka and from files; those of "${client}" are for the tools of that broker`,
    );
  const { topic, group } = place;
  const reader = await openTopicReader(client, { ...brokerSettingsOf(config, logger), topic, group });
  return createDlqSource(topic, reader);
}
