import { readdirSync } from 'node:fs';
import { join, parse, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Bench, Figure } from '../../scripts/bench.ts';
import { startOwnKafka } from '../support/kafka.ts';
import { type CaseProcess, startCase } from './case-process.ts';
import { startJavaCase } from './java-case.ts';
import { quantile } from './load.ts';
import { payload } from './payload.ts';
import { producerPerformance } from './producer-performance.ts';
import type { CaseKind, Run } from './throughput-case.ts';

const partitionCount = 6;
const warmUps = 2;
const pace = { events: 6_000, perSecond: 2_000 };
type Kind = CaseKind | 'java';
const eventsOf: Record<Kind, number> = {
  'hand-per-event': 10_000,
  'hand-best': 40_000,
  svc: 40_000,
  'svc-sync': 40_000,
  java: 40_000,
};
/** What a compiler that watches wants to see before it has done its best. */
const javaWarmUp = 300_000;
const javaName = 'java-jackson';

interface Entry {
  readonly name: string;
  readonly kind: Kind;
  /** Names of the cases that this one is compared with. */
  readonly against: readonly string[];
  readonly process: CaseProcess;
  readonly runs: Run[];
  paced?: Run;
}

/** svc beside publishers written by hand, with every client in `clients/`, all on one Kafka in one run. */
export const bench: Bench = async (progress, args = []) => {
  const { values } = parseArgs({
    args: [...args],
    options: { client: { type: 'string' }, rounds: { type: 'string' }, profile: { type: 'string' } },
  });
  const rounds = Number(values.rounds ?? 5);
  const clients = values.client?.split(',') ?? allClients();
  const kafka = await startOwnKafka();
  const entries: Entry[] = [];

  async function addJava(): Promise<void> {
    const topic = `bench.${javaName}`;
    await kafka.createTopic(topic, { partitions: partitionCount });
    const java = await startJavaCase(kafka.brokers, topic);
    entries.push({ name: javaName, kind: 'java', against: [], process: java, runs: [] });
    const warm = await java.run({ events: javaWarmUp });
    progress(`warm-up ${javaName}: ${(warm.cpuUs / javaWarmUp).toFixed(1)} us`);
  }

  async function add(client: string, kind: CaseKind, name: string, ...against: string[]): Promise<void> {
    const topic = `bench.${name}`;
    await kafka.createTopic(topic, { partitions: partitionCount });
    const setup = { kind, client, brokers: kafka.brokers, topic, partitionCount };
    const profile = values.profile && resolve(values.profile);
    entries.push({ name, kind, against, process: await startCase(setup, profile), runs: [] });
  }

  try {
    await addJava();
    for (const client of clients) {
      const perEvent = `hand-per-event-${client}`;
      const best = `hand-best-${client}`;
      const svc = `svc-${client}`;
      await add(client, 'hand-per-event', perEvent);
      await add(client, 'hand-best', best, perEvent);
      await add(client, 'svc', svc, best, perEvent, javaName);
      await add(client, 'svc-sync', client === 'kafkajs' ? 'svc-sync-256' : `svc-sync-256-${client}`, svc);
    }
    const bytes = JSON.stringify(payload).length;
    progress(
      `payload ${bytes} bytes, ${partitionCount} partitions, acks=all, one broker, median of ${rounds} rounds in turn, each case in its own process, Node ${process.version}`,
    );
    for (let round = 1 - warmUps; round <= rounds; round++) {
      for (const entry of entries) {
        const run = await entry.process.run({ events: eventsOf[entry.kind] });
        if (round > 0) entry.runs.push(run);
        progress(`${round > 0 ? `round ${round}` : 'warm-up'} ${entry.name}: ${said(entry, run)}`);
      }
    }
    for (const entry of entries) if (entry.kind !== 'java') entry.paced = await entry.process.run(pace);
    await kafka.createTopic('bench.java', { partitions: partitionCount });
    const java = await producerPerformance(kafka.brokers, 'bench.java', 300_000, bytes + 400);
    return [
      ...entries.flatMap((entry) => figuresOf(entry, entries)),
      figure('java-producer', java.recordsPerSecond, 'events/s'),
      figure('java-producer-p99', java.p99Ms, 'ms'),
    ];
  } finally {
    await Promise.all(entries.map((entry) => entry.process.end()));
    await kafka.stop();
  }
};

function allClients(): string[] {
  return readdirSync(join(import.meta.dirname, 'clients')).map((file) => parse(file).name);
}

function rateOf({ kind }: Pick<Entry, 'kind'>, { seconds }: Run): number {
  return eventsOf[kind] / seconds;
}

function cpuOf({ kind }: Pick<Entry, 'kind'>, { cpuUs }: Run): number {
  return cpuUs / eventsOf[kind];
}

function said(entry: Entry, run: Run): string {
  return `${Math.round(rateOf(entry, run))}/s, ${cpuOf(entry, run).toFixed(1)} us, p99 ${run.p99Ms.toFixed(1)} ms`;
}

function figuresOf(entry: Entry, entries: readonly Entry[]): Omit<Figure, 'bench'>[] {
  const { name, runs, paced } = entry;
  const median = (read: (run: Run) => number): number => quantile(runs.map(read), 0.5);
  const compared = (of: string, unit: string, read: (entry: Entry, run: Run) => number) => {
    const value = figure(
      name + of,
      median((run) => read(entry, run)),
      unit,
    );
    const all = entry.against.map((against) => {
      const other = entries.find((one) => one.name === against) as Entry;
      // Round by round: what slows the machine down for a while slows down both.
      const ratios = runs.map((run, round) => read(entry, run) / read(other, other.runs[round] as Run));
      return { ...value, against: against + of, ratio: Number(quantile(ratios, 0.5).toFixed(2)) };
    });
    return all.length > 0 ? all : [value];
  };
  return [
    ...compared('', 'events/s', rateOf),
    ...compared('-cpu', 'us/event', cpuOf),
    figure(
      `${name}-p50`,
      median((run) => run.p50Ms),
      'ms',
    ),
    figure(
      `${name}-p99`,
      median((run) => run.p99Ms),
      'ms',
    ),
    ...(paced === undefined
      ? []
      : [
          figure(`${name}-paced-p50`, paced.p50Ms, 'ms'),
          figure(`${name}-paced-p99`, paced.p99Ms, 'ms'),
          figure(`${name}-rss`, Math.max(...runs.map((run) => run.rssMb)), 'MB'),
        ]),
  ];
}

function figure(name: string, value: number, unit: string): Omit<Figure, 'bench'> {
  const digits = value < 1_000 ? 2 : 0;
  return { case: name, value: Number(value.toFixed(digits)), unit };
}
