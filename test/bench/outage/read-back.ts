import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';

/** What a reader of the topic sees of all events. */
export interface ReadBack {
  readonly records: number;
  /** Events of the application that are not there. */
  readonly missing: number;
  /** There more than once. */
  readonly repeated: number;
  /** Seen for the first time behind a later one of their key. */
  readonly inversions: number;
  /** How many the broker appended between two times, in milliseconds since the epoch. */
  appendedBetween(fromMs: number, toMs: number): number;
}

const stepMs = 10;
const readingMs = 300_000;

/** @param calls of the application, which are numbered from 0 */
export async function readBack(brokers: readonly string[], topic: string, calls: number): Promise<ReadBack> {
  const kafka = new kafkajs.Kafka({ brokers: [...brokers], logLevel: kafkajs.logLevel.NOTHING });
  const records = await countOf(kafka, topic);
  const seen = new Uint8Array(calls);
  const lastOf = new Map<string, number>();
  const appended = new Map<number, number>();
  let [read, found, inversions] = [0, 0, 0];
  const consumer = kafka.consumer({ groupId: `read-back-${Date.now()}` });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    async eachBatch({ batch }) {
      for (const { key, value, timestamp } of batch.messages) {
        read++;
        const step = Math.floor(Number(timestamp) / stepMs);
        appended.set(step, (appended.get(step) ?? 0) + 1);
        const call = callIn(value as Buffer);
        if (seen[call] === 1) continue;
        seen[call] = 1;
        found++;
        const of = String(key);
        const last = lastOf.get(of) ?? -1;
        if (call < last) inversions++;
        else lastOf.set(of, call);
      }
    },
  });
  for (const endMs = Date.now() + readingMs; read < records; await sleep(100))
    if (Date.now() > endMs) throw new Error(`only ${read} of ${records} records could be read back`);
  await consumer.disconnect();
  return {
    ...{ records, inversions, missing: calls - found, repeated: read - found },
    appendedBetween: (fromMs, toMs) =>
      [...appended].reduce(
        (sum, [step, count]) => (step * stepMs >= fromMs && step * stepMs < toMs ? sum + count : sum),
        0,
      ),
  };
}

async function countOf(kafka: kafkajs.Kafka, topic: string): Promise<number> {
  const admin = kafka.admin();
  await admin.connect();
  const offsets = await admin.fetchTopicOffsets(topic);
  await admin.disconnect();
  return offsets.reduce((sum, { high, low }) => sum + Number(high) - Number(low), 0);
}

const before = Buffer.from('"call":');

function callIn(value: Buffer): number {
  const at = value.indexOf(before) + before.length;
  return Number.parseInt(value.toString('latin1', at, at + 12), 10);
}
