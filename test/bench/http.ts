import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Bench } from '../../scripts/bench.ts';
import { startOwnKafka } from '../support/kafka.ts';
import type { HttpAppSetup } from './http-app.ts';
import { httpLoad } from './http-load.ts';
import { quantile } from './load.ts';

const seconds = 10;
const warmUpSeconds = 5;

interface Application {
  readonly name: string;
  readonly process: ChildProcess;
  readonly port: number;
  readonly runs: { readonly p50: number; readonly p99: number; readonly cpu: number }[];
}

/** A server at 2,000 requests a second, five events each, without svc and with it in async mode, in turn. */
export const bench: Bench = async (progress, args = []) => {
  const { values } = parseArgs({
    args: [...args],
    options: { rate: { type: 'string' }, rounds: { type: 'string' } },
  });
  const rate = Number(values.rate ?? 2_000);
  const rounds = Number(values.rounds ?? 5);
  const kafka = await startOwnKafka();
  const applications: Application[] = [];

  async function add(name: string, setup: HttpAppSetup): Promise<void> {
    const child = fork(join(import.meta.dirname, 'http-app.ts'), [JSON.stringify(setup)]);
    const [{ port }] = (await once(child, 'message')) as [{ port: number }];
    applications.push({ name, process: child, port, runs: [] });
  }

  try {
    await kafka.createTopic('orders', { partitions: 6 });
    await add('without', {});
    await add('svc', { svc: { brokers: kafka.brokers, topic: 'orders' } });
    progress(
      `${rate} requests/s with 5 events each, median of ${rounds} rounds of ${seconds} s in turn; server, Kafka and load share this machine`,
    );
    for (const { port } of applications) await httpLoad(port, rate, warmUpSeconds);
    for (let round = 1; round <= rounds; round++) {
      // There and back again: what gets better or worse with time does so for all.
      for (const one of round % 2 === 1 ? applications : [...applications].reverse()) {
        const before = await cpuOf(one);
        const { latenciesMs, perSecond } = await httpLoad(one.port, rate, seconds);
        const cpu = ((await cpuOf(one)) - before) / latenciesMs.length;
        const [p50, p99] = [quantile(latenciesMs, 0.5), quantile(latenciesMs, 0.99)];
        one.runs.push({ p50, p99, cpu });
        progress(
          `round ${round} ${one.name}: ${Math.round(perSecond)} requests/s, p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms, ${Math.round(cpu)} us`,
        );
      }
    }
  } finally {
    for (const { process: child } of applications) if (child.connected) child.send('end');
    await Promise.all(applications.map(({ process: child }) => child.exitCode ?? once(child, 'exit')));
    await kafka.stop();
  }
  const without = applications[0] as Application;
  return applications.flatMap(({ name, runs }) => {
    const median = (read: (run: Application['runs'][number]) => number): number =>
      Number(quantile(runs.map(read), 0.5).toFixed(2));
    const ratios = runs.map(({ p99 }, round) => p99 / (without.runs[round]?.p99 ?? Number.NaN));
    const ratio = Number(quantile(ratios, 0.5).toFixed(2));
    return [
      { case: `${name}-p50`, value: median(({ p50 }) => p50), unit: 'ms' },
      {
        case: `${name}-p99`,
        value: median(({ p99 }) => p99),
        unit: 'ms',
        ...(name === 'without' ? {} : { against: 'without-p99', ratio }),
      },
      { case: `${name}-cpu`, value: median(({ cpu }) => cpu), unit: 'us/request' },
    ];
  });
};

async function cpuOf({ process: child }: Application): Promise<number> {
  child.send('cpu');
  const [{ cpuUs }] = (await once(child, 'message')) as [{ cpuUs: number }];
  return cpuUs;
}
