import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { cpus } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Bench, Figure } from '../../scripts/bench.ts';
import { startOwnKafka } from '../support/kafka.ts';
import { type AppUsage, eventsPerRequest, type HttpAppSetup } from './http-app-messages.ts';
import { httpLoad } from './http-load.ts';
import { quantile } from './load.ts';

const seconds = 10;
const warmUpSeconds = 5;
const partitionCount = 6;

interface Run {
  readonly p50: number;
  readonly p99: number;
  readonly cpu: number;
  /** How much of all cores was in use, by whomever. */
  readonly busy: number;
  readonly delayP99: number;
  readonly delayMax: number;
  readonly encodingMax: number;
}

interface Application {
  readonly name: string;
  readonly against: readonly string[];
  readonly process: ChildProcess;
  readonly port: number;
  readonly runs: Run[];
}

/**
 * A server at 2,000 requests a second, five events each: without publishing, with svc in async mode, and with the best that
 * we know to write by hand, in turn.
 */
export const bench: Bench = async (progress, args = []) => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rate: { type: 'string' },
      rounds: { type: 'string' },
      client: { type: 'string' },
      profile: { type: 'string' },
    },
  });
  const rate = Number(values.rate ?? 2_000);
  const rounds = Number(values.rounds ?? 5);
  const clients = (values.client ?? 'kafkajs,platformatic').split(',');
  const profile = values.profile && resolve(values.profile);
  const kafka = await startOwnKafka();
  const applications: Application[] = [];

  async function add(name: string, setup: HttpAppSetup, against: readonly string[]): Promise<void> {
    const execArgv =
      profile === undefined
        ? []
        : ['--cpu-prof', '--cpu-prof-dir', profile, '--cpu-prof-name', `${name}.cpuprofile`];
    const child = fork(join(import.meta.dirname, 'http-app.ts'), [JSON.stringify(setup)], { execArgv });
    const [{ port }] = (await once(child, 'message')) as [{ port: number }];
    applications.push({ name, against, process: child, port, runs: [] });
  }

  try {
    await add('without', {}, []);
    for (const client of clients) {
      for (const kind of ['hand-best', 'svc'] as const) {
        const name = `${kind}-${client}`;
        await kafka.createTopic(`bench.${name}`, { partitions: partitionCount });
        const target = { brokers: kafka.brokers, topic: `bench.${name}`, partitionCount };
        const others = kind === 'svc' ? ['without', `hand-best-${client}`] : ['without'];
        await add(name, { publisher: { kind, client, ...target } }, others);
      }
    }
    progress(
      `${rate} requests/s with 5 events each, median of ${rounds} rounds of ${seconds} s in turn; server, Kafka and load share this machine`,
    );
    for (const { port } of applications) await httpLoad(port, rate, warmUpSeconds);
    for (let round = 1; round <= rounds; round++) {
      // There and back again: what gets better or worse with time does so for all.
      for (const one of round % 2 === 1 ? applications : [...applications].reverse()) {
        const before = await usageOf(one);
        const busyShare = watchCores();
        const { latenciesMs, perSecond } = await httpLoad(one.port, rate, seconds);
        const { cpuUs, delayP99, delayMax, encodingMax } = await usageOf(one);
        const cpu = (cpuUs - before.cpuUs) / latenciesMs.length;
        const [p50, p99] = [quantile(latenciesMs, 0.5), quantile(latenciesMs, 0.99)];
        const busy = busyShare() * 100;
        one.runs.push({ p50, p99, cpu, busy, delayP99, delayMax, encodingMax });
        progress(
          `round ${round} ${one.name}: ${Math.round(perSecond)} requests/s, p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms, ${Math.round(cpu)} us, ${Math.round(busy)} % of all cores, loop delay p99 ${delayP99.toFixed(1)} ms, at most ${delayMax.toFixed(1)} ms, encoding at most ${encodingMax.toFixed(1)} ms`,
        );
      }
    }
  } finally {
    for (const { process: child } of applications) if (child.connected) child.send('end');
    await Promise.all(applications.map(({ process: child }) => child.exitCode ?? once(child, 'exit')));
    await kafka.stop();
  }
  return applications.flatMap((one) => figuresOf(one, applications));
};

function figuresOf(one: Application, all: readonly Application[]): Omit<Figure, 'bench'>[] {
  const { name, against, runs } = one;
  const median = (read: (run: Run) => number): number => Number(quantile(runs.map(read), 0.5).toFixed(2));
  const p99 = { case: `${name}-p99`, value: median((run) => run.p99), unit: 'ms' };
  const compared = against.map((other) => {
    const { runs: others } = all.find((one) => one.name === other) as Application;
    // Round by round: what slows the machine down for a while slows down both.
    const ratios = runs.map((run, round) => run.p99 / (others[round] as Run).p99);
    return { ...p99, against: `${other}-p99`, ratio: Number(quantile(ratios, 0.5).toFixed(2)) };
  });
  const without = all.find((other) => other.name === 'without') as Application;
  const cpuPerEvent = runs.map(
    ({ cpu }, round) => (cpu - (without.runs[round] as Run).cpu) / eventsPerRequest,
  );
  const eventCpu =
    one === without
      ? []
      : [
          {
            case: `${name}-event-cpu`,
            value: Number(quantile(cpuPerEvent, 0.5).toFixed(2)),
            unit: 'us/event',
          },
        ];
  return [
    { case: `${name}-p50`, value: median(({ p50 }) => p50), unit: 'ms' },
    ...(compared.length > 0 ? compared : [p99]),
    { case: `${name}-cpu`, value: median(({ cpu }) => cpu), unit: 'us/request' },
    ...eventCpu,
    { case: `${name}-loop-p99`, value: median(({ delayP99 }) => delayP99), unit: 'ms' },
    { case: `${name}-loop-max`, value: median(({ delayMax }) => delayMax), unit: 'ms' },
    ...(name.startsWith('svc')
      ? [{ case: `${name}-encoding-max`, value: median(({ encodingMax }) => encodingMax), unit: 'ms' }]
      : []),
    { case: `${name}-busy`, value: median(({ busy }) => busy), unit: '% of all cores' },
  ];
}

/** Begins to count; call the result for the share of all cores that was in use since. */
function watchCores(): () => number {
  const times = (): { idle: number; all: number } => {
    const each = cpus().map(({ times }) => times);
    const idle = each.reduce((sum, time) => sum + time.idle, 0);
    return { idle, all: each.reduce((sum, { user, nice, sys, irq }) => sum + user + nice + sys + irq, idle) };
  };
  const before = times();
  return () => {
    const after = times();
    return 1 - (after.idle - before.idle) / (after.all - before.all);
  };
}

async function usageOf({ process: child }: Application): Promise<AppUsage> {
  child.send('usage');
  const [usage] = (await once(child, 'message')) as [AppUsage];
  return usage;
}
