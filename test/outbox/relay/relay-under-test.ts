import { createLedger, createPublishDurations } from '../../../src/observe/outcomes.ts';
import type { OutboxRow } from '../../../src/outbox/outbox-row.ts';
import {
  createRelay,
  type Relay,
  type RelayParts,
  type RelaySettings,
} from '../../../src/outbox/relay/relay.ts';
import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../../src/publish/broker.ts';
import { outboxRow } from '../../cli/outbox-folder.ts';
import { logInto } from '../../support/log.ts';
import { until as untilSo } from '../../support/until.ts';

export const usualSettings: RelaySettings = {
  batchSize: 100,
  pollIntervalMs: 1_000,
  maxRetries: 3,
  sendTimeoutMs: 2_000,
  retentionDays: 7,
  failedRetentionDays: 30,
  cleanupEnabled: false,
  dynamicBatching: true,
  circuitBreaker: true,
};

export const invalid: SendFailure = { kind: 'fatal', cause: 'INVALID_RECORD', message: 'no such record' };
export const unknownTopic: SendFailure = {
  kind: 'retriable',
  cause: 'UNKNOWN_TOPIC_OR_PARTITION',
  message: 'topic does not exist',
};

let lastEvent = 0;

/** The same numbers from 0 to 1 for the same seed. */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return state / 2 ** 32;
  };
}

/** `sequence` stands in the header `seq`. */
export function rowOf(aggregateId: string, sequence: number, rest: Partial<OutboxRow> = {}): OutboxRow {
  const eventId = `e${++lastEvent}`;
  return outboxRow({
    ...{ eventId, eventType: 'T', aggregateId, topic: 'orders', key: aggregateId, occurredAt: 0 },
    headers: { eventId, aggregateId, seq: String(sequence) },
    payload: Buffer.from(`{"eventId":"${eventId}"}`),
    ...rest,
  });
}

export interface SentBatch {
  readonly topic: string;
  readonly partition: number | undefined;
  readonly records: readonly BrokerRecord[];
  readonly ids: string[];
  readonly atMs: number;
  /** Set with the answer. */
  failure?: SendFailure;
}

export interface FakeBroker extends Broker {
  /** In the order in which the broker took them. */
  readonly stored: BrokerRecord[];
  readonly sends: SentBatch[];
  /** Sends at once to one partition, the most there were. */
  maxAtOnce: number;
  /** A failure, or a delay before the answer. `late`: the record is stored and the answer lost. */
  reply: (sent: SentBatch) => SendFailure | undefined | Promise<SendFailure | undefined>;
  partitions: number | undefined;
}

export function createFakeBroker(nowMs: () => number, partitions: number | undefined = 4): FakeBroker {
  const atOnce = new Map<string, number>();
  const broker: FakeBroker = {
    ...{ name: 'fake', stored: [], sends: [], maxAtOnce: 0, partitions },
    reply: () => undefined,
    connect: async () => ({ ok: true }),
    async send(topic, partition, records): Promise<SendResult> {
      const ids = records.map(({ headers }) => headers.eventId as string);
      const sent: SentBatch = { topic, partition, records, ids, atMs: nowMs() };
      broker.sends.push(sent);
      const key = `${topic} ${partition}`;
      const now = (atOnce.get(key) ?? 0) + 1;
      atOnce.set(key, now);
      broker.maxAtOnce = Math.max(broker.maxAtOnce, now);
      const failure = await broker.reply(sent);
      atOnce.set(key, (atOnce.get(key) ?? 0) - 1);
      if (failure !== undefined) {
        sent.failure = failure;
        return { ok: false, failure };
      }
      broker.stored.push(...records);
      return { ok: true };
    },
    partitionsFor: async () => broker.partitions,
    describe: async () => ({ clusterId: null, nodeCount: 1 }),
    close: async () => {},
  };
  return broker;
}

export function collectLines() {
  const lines: string[] = [];
  return { lines, logger: logInto(lines) };
}

let lastOwner = 0;

export function relayOver(
  parts: Pick<RelayParts, 'store' | 'broker'> & Partial<Omit<RelayParts, 'settings'>>,
  settings: Partial<RelaySettings> = {},
): Relay {
  return createRelay({
    owner: `owner-${++lastOwner}`,
    counters: { ledger: createLedger(), durations: createPublishDurations() },
    ...parts,
    settings: { ...usualSettings, ...settings },
  });
}

/** Pairs of records of one aggregate that are stored in the wrong order, later ones of the same event apart. */
export function inversions(stored: readonly BrokerRecord[]): number {
  const highest = new Map<string, number>();
  const seen = new Set<string>();
  let wrong = 0;
  for (const { headers } of stored) {
    const { eventId = '', aggregateId = '', seq } = headers;
    if (seen.has(eventId)) continue;
    seen.add(eventId);
    const sequence = Number(seq);
    if (sequence < (highest.get(aggregateId) ?? -1)) wrong++;
    else highest.set(aggregateId, sequence);
  }
  return wrong;
}

export const duplicates = (stored: readonly BrokerRecord[]): number =>
  stored.length - new Set(stored.map(({ headers }) => headers.eventId)).size;

export const until = (isSo: () => boolean, limitMs = 8_000): Promise<void> =>
  untilSo(isSo, { limitMs, everyMs: 5 });
