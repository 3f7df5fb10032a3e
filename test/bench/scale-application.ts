import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Figure } from '../../scripts/bench.ts';
import type { startOwnKafka } from '../support/kafka.ts';
import { installPacked } from '../support/packed.ts';

// One application without svc and with it, in turns: what its start, its memory and its calls cost, by the number of targets, the
// size of the file that holds one, the size of the payload, the number of topics, and the events that wait while Kafka is away.

type Figures = Omit<Figure, 'bench'>[];
type Kafka = Awaited<ReturnType<typeof startOwnKafka>>;

interface Case {
  /** Functions of the file that are called, in turns. Each has a target. */
  readonly functions?: number;
  /** Dense code in the same file beside them. */
  readonly fileMb?: number;
  readonly payloadBytes?: number;
  readonly topics?: number;
  readonly calls?: number;
  /** Kafka does not answer. */
  readonly isAway?: boolean;
}

const cases: Readonly<Record<string, Case>> = {
  'targets-1': {},
  'targets-100': { functions: 100 },
  'targets-1000': { functions: 1_000 },
  'file-1mb': { fileMb: 1 },
  'file-4mb': { fileMb: 4 },
  'file-8mb': { fileMb: 8 },
  'payload-100b': { payloadBytes: 100, calls: 50_000 },
  'payload-1kb': { payloadBytes: 1_000, calls: 50_000 },
  'payload-10kb': { payloadBytes: 10_000, calls: 10_000 },
  'payload-100kb': { payloadBytes: 100_000, calls: 1_000 },
  // With its envelope just below `message.max.bytes`.
  'payload-1mb': { payloadBytes: 1_000_000, calls: 100 },
  'topics-1': { functions: 1, topics: 1, calls: 50_000 },
  'topics-100': { functions: 100, topics: 100, calls: 50_000 },
  'topics-1000': { functions: 1_000, topics: 1_000, calls: 50_000 },
  'waiting-1000': { isAway: true, calls: 1_000 },
  'waiting-10000': { isAway: true, calls: 10_000 },
  'waiting-100000': { isAway: true, calls: 100_000 },
};

/** What one process tells of itself. */
interface Told {
  /** From the start of the process to the first line after the application's modules. */
  readonly startMs: number;
  readonly startCpuMs: number;
  readonly startMb: number;
  readonly callUs: number;
  readonly maxMb: number;
}

const program = `
  import { resourceUsage } from 'node:process';
  import * as own from './functions.mjs';
  const used = () => { const { userCPUTime, systemCPUTime, maxRSS } = resourceUsage(); return { cpuMs: (userCPUTime + systemCPUTime) / 1000, mb: maxRSS / 1024 }; };
  const startMs = performance.now();
  const start = used();
  const functions = Object.values(own).filter((each) => typeof each === 'function');
  const calls = Number(process.argv[2]);
  let bytes = 0;
  let called = 0;
  const caller = async () => {
    // What an application does with what it has: it answers.
    while (called < calls) bytes += JSON.stringify(await functions[called++ % functions.length]()).length;
  };
  await Promise.all(Array.from({ length: 256 }, caller));
  if (process.argv[3] === 'away') {
    const { cpuMs, mb } = used();
    console.log(JSON.stringify({ startMs, startCpuMs: start.cpuMs, startMb: start.mb, callUs: (cpuMs - start.cpuMs) * 1000 / calls, maxMb: mb }));
    // Nothing of what waits is measured any more.
    process.kill(process.pid, 'SIGKILL');
  }
  process.on('exit', () => {
    const { cpuMs, mb } = used();
    console.log(JSON.stringify({ startMs, startCpuMs: start.cpuMs, startMb: start.mb, callUs: (cpuMs - start.cpuMs) * 1000 / calls, maxMb: mb, bytes }));
  });
`;

/** @param rounds runs of each, of which the median counts; the first run is none of them */
export async function applicationScale(
  kafka: Kafka,
  rounds: number,
  progress: (line: string) => void,
): Promise<Figures> {
  const application = installPacked('bench-scale', { '@opentelemetry/api': '1.10.0' });
  const figures: Figures = [];
  for (const [name, each] of Object.entries(cases)) {
    const topics = Array.from({ length: each.topics ?? 1 }, (_, index) => topicOf(name, index));
    while (topics.length > 0)
      await Promise.all(topics.splice(0, 20).map((topic) => kafka.createTopic(topic)));
    const folder = write(application, name, each, kafka.brokers);
    const without: Told[] = [];
    const under: Told[] = [];
    for (let round = 0; round <= rounds; round++) {
      const told = [await run(folder, each, []), await run(folder, each, ['--import', 'svc/register'])];
      if (round === 0) continue;
      without.push(told[0] as Told);
      under.push(told[1] as Told);
    }
    const compare = (of: keyof Told, unit: string): Figures[number] => {
      const [bare, value] = [median(without, of), median(under, of)];
      const ratio = Number((value / bare).toFixed(2));
      return { case: `${name} ${of}`, value: Number(value.toFixed(1)), unit, against: 'without svc', ratio };
    };
    figures.push(
      ...[compare('startMs', 'ms'), compare('startCpuMs', 'ms of CPU'), compare('startMb', 'MB')],
      ...(each.calls === undefined ? [] : [compare('callUs', 'us of CPU a call'), compare('maxMb', 'MB')]),
    );
    progress(`${name}: measured`);
    rmSync(folder, { recursive: true, force: true });
  }
  return figures;
}

const topicOf = (name: string, index: number): string => `bench.${name}.${index}`;

function median(all: readonly Told[], of: keyof Told): number {
  return all.map((each) => each[of]).sort((a, b) => a - b)[Math.floor(all.length / 2)] ?? Number.NaN;
}

function write(application: string, name: string, each: Case, brokers: readonly string[]): string {
  const folder = join(application, `scale-${name}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const names = Array.from({ length: each.functions ?? 1 }, (_, index) => `function${index}`);
  const value = `{ id: 'o-1', note: '${'x'.repeat(Math.max(0, (each.payloadBytes ?? 100) - 26))}' }`;
  const functions = names.map((own) => `export async function ${own}() { return ${value}; }\n`);
  writeFileSync(join(folder, 'functions.mjs'), [...functions, ...dense(each.fileMb ?? 0)].join(''));
  writeFileSync(join(folder, 'program.mjs'), program);
  const config = {
    svc: {
      broker: {
        topic: topicOf(name, 0),
        'bootstrap-servers': each.isAway ? ['127.0.0.1:9'] : brokers,
      },
      targets: names.map((own, index) => ({
        ...{ module: './functions.mjs', function: own },
        ...(each.topics !== undefined && { topic: topicOf(name, index % each.topics) }),
      })),
    },
    management: { server: { port: 0 } },
  };
  writeFileSync(join(folder, 'svc.config.json'), JSON.stringify(config));
  return folder;
}

/** Short functions, as a bundle has them. */
function dense(mb: number): string[] {
  const lines: string[] = [];
  for (let size = 0, at = 0; size < mb * 1024 * 1024; at++) {
    const line = `function d${at}(a,b){if(a>b)return a*${at}+b;const c=[a,b,{k:a,v:"t${at}"}];return c.map(e=>typeof e==="number"?e+1:e)}\n`;
    lines.push(line);
    size += line.length;
  }
  return lines;
}

async function run(folder: string, { calls = 1, isAway }: Case, args: readonly string[]): Promise<Told> {
  const stdio = ['ignore', 'pipe', 'pipe'] as const;
  const command = [...args, 'program.mjs', String(calls), ...(isAway ? ['away'] : [])];
  const child = spawn(process.execPath, command, { cwd: folder, stdio: [...stdio] });
  const ended = once(child, 'exit');
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  const told = out.split('\n').find((line) => line.startsWith('{"startMs"'));
  if (told === undefined) throw new Error(`the program ended before its end: ${out}${err}`);
  return JSON.parse(told) as Told;
}
