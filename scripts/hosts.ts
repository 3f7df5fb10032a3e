import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import fc from 'fast-check';
import { type Databases, type Driver, databasesOf, drivers } from '../test/hosts/databases.ts';
import { difference } from '../test/hosts/difference.ts';
import { anyProgram, renderProgram } from '../test/hosts/program.ts';
import { type Ready, runBothWays, type Way } from '../test/hosts/run-programs.ts';
import { anyTransactions, renderTransactions } from '../test/hosts/transactions.ts';
import { installPacked } from '../test/support/packed.ts';
import { addCounts, addFailure, closingLine } from './test-results.ts';

const HELP = `Usage: npm run test:hosts -- [options]

Runs generated programs without svc and with it: but for events, nothing may differ, and the events are those that the program
expects. Every fifth program works on a database: PostgreSQL, MariaDB, and SQLite with both drivers.

  --seed <n>     repeats what this seed made; default: another one each time
  --count <n>    programs; default 300
  --only <id>    the one program of this id: p12, t7
`;

/** Programs in one process. */
const BATCH = 50;
/** So many that differ are made smaller, and shown whole. */
const EXPLAINED = 3;
const SHRINK_MS = 20_000;

/** Programs of one kind: how they are made, and what each of them is run with. */
interface Kind<P> {
  readonly prefix: string;
  readonly any: fc.Arbitrary<P>;
  readonly render: (program: P, index: number, id: string) => Omit<Ready, 'id'>;
  /** Programs with the same one share processes. */
  readonly modes: readonly string[];
  /** Runs `work` with what stands for "without svc" and "with it". */
  readonly inMode: (mode: string, work: (ways: readonly Way[]) => Promise<Found[]>) => Promise<Found[]>;
}

/** One that differs. */
interface Found {
  readonly index: number;
  readonly told: string;
}

const svc = { args: ['--import', 'svc/register'], env: { HOSTS_SVC: 'true' } };

/** svc's default: callers wait for their events. */
const waits = (index: number): boolean => index % 2 === 1;
const calls: Kind<Parameters<typeof renderProgram>[0]> = {
  prefix: 'p',
  any: anyProgram,
  modes: ['async-mode: true', 'async-mode: false'],
  render: (program, index, id) => renderProgram(program, id, waits(index)),
  inMode: (mode, work) =>
    work([
      { args: [], env: {} },
      { ...svc, env: { ...svc.env, SVC_BROKER_ASYNC_MODE: String(mode.endsWith('true')) } },
    ]),
};

const databases = new Map<Driver, Promise<Databases>>();
const isStored = (index: number): boolean => index % (2 * drivers.length) < drivers.length;
const transactions: Kind<Parameters<typeof renderTransactions>[0]> = {
  prefix: 't',
  any: anyTransactions,
  modes: ['outbox', 'afterCommit'].flatMap((way) => drivers.map((driver) => `${driver} ${way}`)),
  render: (program, index, id) => renderTransactions(program, id, isStored(index)),
  async inMode(mode, work) {
    const [driver, way] = mode.split(' ') as [Driver, string];
    const stores = way === 'outbox';
    const known = databases.get(driver) ?? databasesOf(driver);
    databases.set(driver, known);
    const { fresh } = await known;
    return work([
      { args: [], env: {}, database: () => fresh(false) },
      { ...svc, database: () => fresh(stores), isStored: stores },
    ]);
  },
};

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    count: { type: 'string', default: '300' },
    only: { type: 'string' },
    help: { type: 'boolean' },
  },
});
const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(values.seed);
const count = Number(values.count);
const say = (line: string): void => void process.stdout.write(`${line}\n`);

/** The pieces of work of one kind, and what they found; at its end the smallest programs are shown. */
function jobsOf<P>(
  kind: Kind<P>,
  application: string,
  number: number,
): (() => Promise<() => Promise<void>>)[] {
  const programs = fc.sample(kind.any, { seed, numRuns: number });
  const idOf = (index: number): string => `${kind.prefix}${index}`;
  const isWanted = (index: number): boolean => values.only === undefined || values.only === idOf(index);

  async function differing(mode: string, some: readonly (readonly [number, P])[]): Promise<Found[]> {
    const ready = some.map(([index, program]) => ({
      id: idOf(index),
      ...kind.render(program, index, idOf(index)),
    }));
    return kind.inMode(mode, async (ways) => {
      const traces = await runBothWays(application, ready, ways);
      return some.flatMap(([index], place) => {
        const [without, under] = traces.get(idOf(index)) ?? [];
        const told = difference(without, under, ready[place]?.silent);
        return told === null ? [] : [{ index, told }];
      });
    });
  }

  /** The smallest program that still differs, its text and both outputs. */
  async function explain(mode: string, { index, told }: Found): Promise<void> {
    let smallest = { program: programs[index] as P, told };
    const until = Date.now() + SHRINK_MS;
    const differs = fc.asyncProperty(kind.any, async (program) => {
      if (Date.now() > until) return true;
      const [found] = await differing(mode, [[index, program]]);
      if (found !== undefined) smallest = { program, told: found.told };
      return found === undefined;
    });
    await fc.check(differs, { seed, path: String(index), numRuns: 1 });
    say(
      `\n== ${idOf(index)} of seed ${seed}, ${mode}: npm run test:hosts -- --seed ${seed} --count ${count} --only ${idOf(index)}`,
    );
    say(`${kind.render(smallest.program, index, idOf(index)).text}\n${smallest.told}`);
  }

  return kind.modes.flatMap((mode, place) => {
    const own = [...programs.entries()].filter(
      ([index]) => index % kind.modes.length === place && isWanted(index),
    );
    const batches = Array.from({ length: Math.ceil(own.length / BATCH) }, (_, n) =>
      own.slice(n * BATCH, (n + 1) * BATCH),
    );
    return batches.map((batch) => async () => {
      const found = await differing(mode, batch);
      tested += batch.length;
      return async () => {
        for (const each of found) {
          addFailure({
            run: 'hosts',
            title: `${idOf(each.index)} of seed ${seed}`,
            error: each.told.split('\n')[0] as string,
          });
          if (failed++ < EXPLAINED) await explain(mode, each);
          else
            say(
              `${idOf(each.index)} (${mode}) differs as well: ${each.told.replace(/\s+/g, ' ').slice(0, 200)}`,
            );
        }
      };
    });
  });
}

let tested = 0;
let failed = 0;

async function main(): Promise<void> {
  if (values.help) return void process.stdout.write(HELP);
  const application = installPacked('hosts', {
    '@opentelemetry/api': '1.10.0',
    '@opentelemetry/context-async-hooks': '3.1.1',
    '@opentelemetry/sdk-trace': '3.1.1',
    'better-sqlite3': '13.2.0',
    mysql2: '3.24.6',
    pg: '8.23.1',
  });
  const started = performance.now();
  say(`seed ${seed}`);
  const onDatabases = Math.floor(count / 5);
  const jobs = [
    ...jobsOf(transactions, application, onDatabases),
    ...jobsOf(calls, application, count - onDatabases),
  ].values();
  const explanations: (() => Promise<void>)[] = [];
  const work = async (): Promise<void> => {
    for (const job of jobs) explanations.push(await job());
  };
  try {
    await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, work));
    say(`${tested} programs in ${((performance.now() - started) / 1000).toFixed(1)} s`);
    for (const explain of explanations) await explain();
  } finally {
    await Promise.all([...databases.values()].map(async (each) => (await each).stop()));
  }
  const counts = { passed: tested - failed, failed, skipped: 0 };
  addCounts(counts);
  say(`seed ${seed}\n${closingLine(counts)}`);
  process.exitCode = failed === 0 ? 0 : 1;
}

await main();
