import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench, Figure } from '../../scripts/bench.ts';

const eventTypes = [10, 100, 1_000] as const;
const rounds = 5;
const idleMs = 20_000;

interface Case {
  readonly process: ChildProcess;
  readonly port: number;
  cpuMs(): Promise<number>;
}

async function begin(what: 'svc' | 'prom-client' | 'nothing', types: number): Promise<Case> {
  const child = fork(join(import.meta.dirname, 'management-server.ts'), [what, String(types)]);
  const [port] = (await once(child, 'message')) as [number];
  return {
    ...{ process: child, port },
    async cpuMs() {
      const answer = once(child, 'message');
      child.send('cpu');
      const [microseconds] = (await answer) as [number];
      return microseconds / 1_000;
    },
  };
}

/** CPU milliseconds of one scrape over HTTP, in the process that is scraped. */
async function scrape({ port, cpuMs }: Case, times: number): Promise<number> {
  const before = await cpuMs();
  // Over one connection, as Prometheus does.
  for (let time = 0; time < times; time++) await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return ((await cpuMs()) - before) / times;
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] as number;

/** What a scrape of the management server costs, beside a registry of prom-client with the same series, and what the server costs idle. */
export const bench: Bench = async (progress) => {
  const figures: Omit<Figure, 'bench'>[] = [];
  for (const types of eventTypes) {
    progress(`scrapes of ${types} event types`);
    const [own, other] = [await begin('svc', types), await begin('prom-client', types)];
    const times = types > 100 ? 20 : 100;
    for (const each of [own, other]) await scrape(each, times);
    const [values, against]: number[][] = [[], []];
    for (let round = 0; round < rounds; round++) {
      values?.push(await scrape(own, times));
      against?.push(await scrape(other, times));
    }
    const [value, reference] = [median(values ?? []), median(against ?? [])];
    figures.push({
      ...{ case: `scrape, ${types} event types`, value: Number(value.toFixed(2)), unit: 'ms of CPU' },
      ...{ against: 'prom-client', ratio: Number((value / reference).toFixed(2)) },
    });
    for (const each of [own, other]) each.process.kill();
  }
  progress(`idle for ${idleMs / 1_000} s`);
  const [server, nothing] = [await begin('svc', 100), await begin('nothing', 100)];
  await sleep(2_000);
  const before = [await server.cpuMs(), await nothing.cpuMs()];
  await sleep(idleMs);
  const used = [
    (await server.cpuMs()) - (before[0] as number),
    (await nothing.cpuMs()) - (before[1] as number),
  ];
  for (const [index, name] of ['idle, with the server', 'idle, without it'].entries())
    figures.push({
      case: name,
      value: Number((((used[index] as number) * 100) / idleMs).toFixed(3)),
      unit: '% of a core',
    });
  for (const each of [server, nothing]) each.process.kill();
  return figures;
};
