import kafkajs from 'kafkajs';
import type { Bench } from '../../scripts/bench.ts';
import { startOwnKafka } from '../support/kafka.ts';
import { sendPerEvent, sendPerPartition } from './hand-written.ts';
import { payload } from './payload.ts';
import { svcOnKafka } from './svc-on-kafka.ts';

const partitionCount = 6;
const rounds = 4;

interface Case {
  readonly name: string;
  readonly events: number;
  /** Publishes so many events; resolves when all are acknowledged. */
  run(events: number): Promise<void>;
  close(): Promise<void>;
}

/** As fast as the client takes them, with at most `window` without acknowledgement. */
async function flood(
  events: number,
  window: number,
  publish: () => void,
  outstanding: () => number,
): Promise<void> {
  for (let left = events; left > 0; ) {
    // Looked at once in a while: asking is not what is measured.
    for (let free = window - outstanding(); free > 0 && left > 0; free--, left--) publish();
    await new Promise((resolve) => setImmediate(resolve));
  }
  while (outstanding() > 0) await new Promise((resolve) => setTimeout(resolve, 1));
}

async function callers(events: number, count: number, call: () => Promise<unknown>): Promise<void> {
  let left = events;
  const caller = async (): Promise<void> => {
    while (left-- > 0) await call();
  };
  await Promise.all(Array.from({ length: count }, caller));
}

export const bench: Bench = async (progress) => {
  const kafka = await startOwnKafka();
  const topics: string[] = [];
  const topicFor = async (name: string): Promise<string> => {
    const topic = `bench.${name}`;
    topics.push(topic);
    await kafka.createTopic(topic, { partitions: partitionCount });
    return topic;
  };
  const client = new kafkajs.Kafka({
    brokers: kafka.brokers,
    retry: { retries: 0 },
    logLevel: kafkajs.logLevel.NOTHING,
  });
  const perEvent = sendPerEvent(client, await topicFor('hand-per-event'));
  const best = sendPerPartition(client, await topicFor('hand-best'), partitionCount);
  await Promise.all([perEvent.connect(), best.connect()]);
  const svc = svcOnKafka(kafka.brokers, await topicFor('svc-kafkajs'), true);
  const svcSync = svcOnKafka(kafka.brokers, await topicFor('svc-sync-256'), false);
  const cases: Case[] = [
    {
      name: 'hand-per-event',
      events: 8_000,
      run: (events) => flood(events, 256, perEvent.publish, () => perEvent.outstanding),
      close: perEvent.close,
    },
    {
      name: 'hand-best',
      events: 30_000,
      run: (events) => flood(events, 4_096, best.publish, () => best.outstanding),
      close: best.close,
    },
    {
      name: 'svc-kafkajs',
      events: 30_000,
      run: (events) => flood(events, 4_096, () => void svc.createOrder(), svc.outstanding),
      close: svc.close,
    },
    {
      name: 'svc-sync-256',
      events: 30_000,
      run: (events) => callers(events, 256, svcSync.createOrder),
      close: svcSync.close,
    },
  ];
  progress(
    `payload ${JSON.stringify(payload).length} bytes, ${partitionCount} partitions, acks=all, one broker, best of ${rounds} rounds in turn, Node ${process.version}`,
  );
  const figures = new Map(cases.map(({ name }) => [name, { rate: 0, cpu: Number.POSITIVE_INFINITY }]));
  try {
    for (let round = 0; round <= rounds; round++) {
      for (const one of cases) {
        const before = process.cpuUsage();
        const started = performance.now();
        await one.run(one.events);
        const seconds = (performance.now() - started) / 1_000;
        const { user, system } = process.cpuUsage(before);
        const rate = Math.round(one.events / seconds);
        const cpu = Number(((user + system) / one.events).toFixed(1));
        progress(`${round === 0 ? 'warm-up' : `round ${round}`} ${one.name}: ${rate}/s, ${cpu} us`);
        const figure = figures.get(one.name);
        if (round === 0 || figure === undefined) continue;
        figure.rate = Math.max(figure.rate, rate);
        figure.cpu = Math.min(figure.cpu, cpu);
      }
    }
    progress(`sends: svc-kafkajs ${svc.sends()}, svc-sync-256 ${svcSync.sends()}`);
  } finally {
    await Promise.all(cases.map(({ close }) => close()));
    await kafka.stop();
  }
  const of = (name: string) => figures.get(name) ?? { rate: 0, cpu: 0 };
  const against: Record<string, string> = {
    'hand-best': 'hand-per-event',
    'svc-kafkajs': 'hand-best',
    'svc-sync-256': 'svc-kafkajs',
  };
  return cases.flatMap(({ name }) => {
    const other = against[name];
    const { rate, cpu } = of(name);
    const compared =
      other === undefined ? {} : { against: other, ratio: Number((rate / of(other).rate).toFixed(2)) };
    return [
      { case: name, value: rate, unit: 'events/s', ...compared },
      { case: `${name}-cpu`, value: cpu, unit: 'us/event' },
    ];
  });
};
