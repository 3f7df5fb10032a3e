import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import fc from 'fast-check';
import { difference } from '../test/hosts/difference.ts';
import { anyProgram, type Program, renderProgram } from '../test/hosts/program.ts';
import { type Ready, runBothWays, type Way } from '../test/hosts/run-programs.ts';
import { installPacked } from '../test/support/packed.ts';
import { closingLine } from './test-results.ts';

const HELP = `Usage: npm run test:hosts -- [options]

Runs generated programs without svc and with it: but for events, nothing may differ.

  --seed <n>     repeats what this seed made; default: another one each time
  --count <n>    programs; default 300
  --only <n>     the one program of this number, with its text
`;

const BATCH = 50;
/** So many are made smaller, and shown whole. */
const EXPLAINED = 3;
const SHRINK_MS = 20_000;

interface Case {
  readonly index: number;
  readonly program: Program;
}

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    count: { type: 'string', default: '300' },
    only: { type: 'string' },
    help: { type: 'boolean' },
  },
});

async function main(): Promise<void> {
  if (values.help) return void process.stdout.write(HELP);
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(values.seed);
  const application = installPacked('hosts', {
    '@opentelemetry/api': '1.10.0',
    '@opentelemetry/context-async-hooks': '3.1.1',
    '@opentelemetry/sdk-trace': '3.1.1',
  });
  const started = performance.now();
  const programs = fc.sample(anyProgram, { seed, numRuns: Number(values.count) });
  const cases = programs.map((program, index) => ({ index, program }));
  const wanted =
    values.only === undefined ? cases : cases.filter(({ index }) => String(index) === values.only);
  process.stdout.write(`${wanted.length} programs of seed ${seed}\n`);
  const batches = [0, 1].flatMap((mode) => {
    const some = wanted.filter(({ index }) => index % 2 === mode);
    return Array.from({ length: Math.ceil(some.length / BATCH) }, (_, n) =>
      some.slice(n * BATCH, (n + 1) * BATCH),
    );
  });
  const failed: [Case, string][] = [];
  const inTurn = batches.values();
  const work = async (): Promise<void> => {
    for (const batch of inTurn) failed.push(...(await differences(application, batch)));
  };
  await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, work));
  process.stdout.write(`the programs themselves: ${((performance.now() - started) / 1000).toFixed(1)} s\n`);
  for (const [each, told] of failed.slice(0, EXPLAINED)) await explain(application, seed, each, told);
  for (const [{ index }, told] of failed.slice(EXPLAINED))
    process.stdout.write(`program ${index} differs as well: ${told.replace(/\s+/g, ' ').slice(0, 200)}\n`);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  process.stdout.write(`seed ${seed}, ${seconds} s\n`);
  process.stdout.write(
    `${closingLine({ passed: wanted.length - failed.length, failed: failed.length, skipped: 0 })}\n`,
  );
  process.exitCode = failed.length === 0 ? 0 : 1;
}

/** Whether callers wait for events, svc's default: every second program. */
const isWaiting = ({ index }: Pick<Case, 'index'>): boolean => index % 2 === 1;

function waysOf(one: Case): Way[] {
  const env = { SVC_BROKER_ASYNC_MODE: String(!isWaiting(one)) };
  return [
    { args: [], env: {} },
    { args: ['--import', 'svc/register'], env: { HOSTS_SVC: 'true', ...env } },
  ];
}

function readyOf({ index, program }: Case): Ready {
  const id = `p${index}`;
  return { id, ...renderProgram(program, id, isWaiting({ index })) };
}

/** The cases of one mode that differ. */
async function differences(application: string, cases: readonly Case[]): Promise<[Case, string][]> {
  const [first] = cases;
  if (first === undefined) return [];
  const traces = await runBothWays(application, cases.map(readyOf), waysOf(first));
  return cases.flatMap((each) => {
    const [without, under] = traces.get(`p${each.index}`) ?? [];
    const told = difference(without, under);
    return told === null ? [] : [[each, told] as [Case, string]];
  });
}

/** The smallest program that still differs, its text and both outputs. */
async function explain(
  application: string,
  seed: number,
  { index, program }: Case,
  told: string,
): Promise<void> {
  let smallest: [Program, string] = [program, told];
  const differs = fc.asyncProperty(anyProgram, async (candidate) => {
    const [found] = await differences(application, [{ index, program: candidate }]);
    if (found === undefined) return true;
    smallest = [candidate, found[1]];
    return false;
  });
  await fc.check(differs, { seed, path: String(index), interruptAfterTimeLimit: SHRINK_MS, numRuns: 1 });
  const mode = `async-mode: ${!isWaiting({ index })}`;
  process.stdout.write(
    `\n== program ${index} of seed ${seed}, ${mode}: npm run test:hosts -- --seed ${seed} --count ${index + 1} --only ${index}\n` +
      `${readyOf({ index, program: smallest[0] }).text}\n${smallest[1]}\n`,
  );
}

await main();
