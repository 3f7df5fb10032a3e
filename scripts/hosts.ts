import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import fc from 'fast-check';
import { difference } from '../test/hosts/difference.ts';
import { calls, databaseOf, type Kind, stopDatabases, transactions } from '../test/hosts/kinds.ts';
import { differingExports, installExports } from '../test/hosts/run-exports.ts';
import { installPackage, packageNames, runPackage } from '../test/hosts/run-packages.ts';
import { runBothWays } from '../test/hosts/run-programs.ts';
import { installPacked } from '../test/support/packed.ts';
import { build } from './build.ts';
import { Unavailable } from './services/unavailable.ts';
import { addCounts, addFailure, closingLine } from './test-results.ts';

const HELP = `Usage: npm run test:hosts -- [options]

Runs the same programs without svc and with it: but for events nothing may differ, and the events are those that a program
expects. Generated programs call functions of all forms; every fifth works on a database (PostgreSQL, MariaDB, SQLite with
both drivers). Then one program for each of some packages, with every function of the package captured, and the exports of a
hundred packages.

  --seed <n>     makes the programs of that seed again; default: others each time
  --count <n>    generated programs; default 300
  --only <id>    one program: p12, t7, the name of a package, or exports
  --after-test   \`npm test\` has just run: what it built is taken
`;

/** Programs in one process. */
const BATCH = 50;
/** So many that differ are made smaller, and shown whole. */
const EXPLAINED = 3;
const SHRINK_MS = 20_000;

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    count: { type: 'string', default: '300' },
    only: { type: 'string' },
    'after-test': { type: 'boolean', default: false },
    help: { type: 'boolean' },
  },
});
const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(values.seed);
const counts = { passed: 0, failed: 0, skipped: 0 };
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const isWanted = (id: string): boolean => values.only === undefined || values.only === id;

/**
 * A piece of work. What it gives back is done when all of them are: it shows what failed. Two jobs run at once in this process. No
 * job waits synchronously for npm or a program, because the connections of the other one would time out.
 */
type Job = () => Promise<() => Promise<void>>;

function jobsOf<P>(kind: Kind<P>, application: string, number: number): Job[] {
  const { prefix, any, modes, render, ways } = kind;
  const programs = fc.sample(any, { seed, numRuns: number });

  /** What differs, by the numbers of the programs. */
  async function differing(
    mode: string,
    some: readonly (readonly [number, P])[],
  ): Promise<[number, string][]> {
    const ready = some.map(([index, program]) => render(program, `${prefix}${index}`, mode));
    const traces = await runBothWays(application, ready, await ways(mode));
    return some.flatMap(([index], place) => {
      const [without, under] = traces.get(`${prefix}${index}`) ?? [];
      const told = difference(without, under, ready[place]?.silent);
      return told === null ? [] : [[index, told] as [number, string]];
    });
  }

  /** The smallest program that still differs, its text and both outputs. */
  async function explain(mode: string, index: number, told: string): Promise<void> {
    let smallest = { program: programs[index] as P, told };
    const until = Date.now() + SHRINK_MS;
    const differs = fc.asyncProperty(any, async (program) => {
      if (Date.now() > until) return true;
      const [found] = await differing(mode, [[index, program]]);
      if (found !== undefined) smallest = { program, told: found[1] };
      return found === undefined;
    });
    await fc.check(differs, { seed, path: String(index), numRuns: 1 });
    const id = `${prefix}${index}`;
    say(`\n== ${id}, ${mode}: npm run test:hosts -- --seed ${seed} --count ${values.count} --only ${id}`);
    say(`${render(smallest.program, id, mode).text}\n${smallest.told}`);
  }

  return modes.flatMap((mode, place) => {
    const own = [...programs.entries()].filter(
      ([index]) => index % modes.length === place && isWanted(`${prefix}${index}`),
    );
    const batches = Array.from({ length: Math.ceil(own.length / BATCH) }, (_, n) =>
      own.slice(n * BATCH, (n + 1) * BATCH),
    );
    return batches.map((batch) =>
      counted(mode, batch.length, async () => {
        const found = await differing(mode, batch);
        return {
          failed: found.map(([index]) => `${prefix}${index} of seed ${seed}`),
          async show() {
            for (const [index, told] of found) {
              if (explained++ < EXPLAINED) await explain(mode, index, told);
              else
                say(
                  `${prefix}${index}, ${mode}, differs as well: ${told.replace(/\s+/g, ' ').slice(0, 200)}`,
                );
            }
          },
        };
      }),
    );
  });
}
let explained = 0;

function jobOf(name: string): Job {
  const application = installPackage(name);
  return counted(name, 1, async () => {
    const { fresh } = await databaseOf('pg');
    const told = await runPackage(name, application, async () => (await fresh(false)).url);
    return {
      failed: told === null ? [] : [name],
      show: async () => void (told && say(`\n== ${name}: ${told}`)),
    };
  });
}

/** What popular packages export, without svc and with one target in each. */
function exportsJob(): Job {
  const application = installExports();
  return counted('exports', 1, async () => {
    const told = await differingExports(application);
    return {
      failed: told.length === 0 ? [] : ['exports'],
      show: async () => void (told.length > 0 && say(`\n== exports:\n${told.join('\n')}`)),
    };
  });
}

interface Outcome {
  /** What differs, by name. */
  readonly failed: readonly string[];
  readonly show: () => Promise<void>;
}

/** Counts `number` programs. Where a server cannot be had they are skipped, but in CI. */
function counted(title: string, number: number, work: () => Promise<Outcome>): Job {
  return async () => {
    try {
      const { failed, show } = await work();
      for (const each of failed) addFailure({ run: 'hosts', title: each });
      counts.failed += failed.length;
      counts.passed += number - failed.length;
      return show;
    } catch (error) {
      const isMissing = error instanceof Unavailable && !process.env.CI;
      counts[isMissing ? 'skipped' : 'failed'] += number;
      if (!isMissing) addFailure({ run: 'hosts', title, error: (error as Error).message });
      return async () => say(`not run: ${title}: ${isMissing ? error.message : (error as Error).stack}`);
    }
  };
}

async function main(): Promise<void> {
  if (values.help) return void process.stdout.write(HELP);
  if (!values['after-test']) build();
  const application = installPacked('hosts', {
    '@opentelemetry/api': '1.10.0',
    '@opentelemetry/context-async-hooks': '3.1.1',
    '@opentelemetry/sdk-trace': '3.1.1',
    'better-sqlite3': '13.2.0',
    mysql2: '3.24.6',
    pg: '8.23.1',
  });
  const started = performance.now();
  const count = Number(values.count);
  const onDatabases = Math.floor(count / 5);
  say(`${count} programs of seed ${seed}`);
  const jobs = [
    ...jobsOf(transactions, application, onDatabases),
    ...packageNames.filter(isWanted).map(jobOf),
    ...(isWanted('exports') ? [exportsJob()] : []),
    ...jobsOf(calls, application, count - onDatabases),
  ].values();
  const shows: (() => Promise<void>)[] = [];
  const work = async (): Promise<void> => {
    for (const job of jobs) shows.push(await job());
  };
  await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, work));
  say(`${((performance.now() - started) / 1000).toFixed(1)} s`);
  for (const show of shows) await show();
}

try {
  await main();
} catch (error) {
  say(String((error as Error).stack));
  addFailure({ run: 'hosts', title: (error as Error).message });
  counts.failed++;
} finally {
  await stopDatabases();
}
if (!values.help) {
  addCounts(counts);
  say(`seed ${seed}\n${closingLine(counts)}`);
}
process.exitCode = counts.failed === 0 ? 0 : 1;
