import type { Arbitrary } from 'fast-check';
import { type Databases, type Driver, databasesOf, drivers } from './databases.ts';
import { anyProgram, type Program, renderProgram } from './program.ts';
import type { Ready, Way } from './run-programs.ts';
import { anyTransactions, renderTransactions, type Transactions } from './transactions.ts';

/** Programs of one kind: how they are made, and what each of them is run with. */
export interface Kind<P> {
  /** Of their ids. */
  readonly prefix: string;
  readonly any: Arbitrary<P>;
  /** Those of one mode share processes. Which one a program has goes by its number. */
  readonly modes: readonly string[];
  readonly render: (program: P, id: string, mode: string) => Ready;
  /** Without svc, and with it. */
  readonly ways: (mode: string) => Promise<readonly [Way, Way]>;
}

const svc = { args: ['--import', 'svc/register'], env: { HOSTS_SVC: 'true' } };

/** Calls of functions of all forms. */
export const calls: Kind<Program> = {
  prefix: 'p',
  any: anyProgram,
  modes: ['async-mode: true', 'async-mode: false'],
  render: (program, id, mode) => ({ id, ...renderProgram(program, id, mode.endsWith('false')) }),
  ways: async (mode) => [
    { args: [], env: {} },
    { ...svc, env: { ...svc.env, SVC_BROKER_ASYNC_MODE: String(mode.endsWith('true')) } },
  ],
};

const databases = new Map<Driver, Promise<Databases>>();

/** Transactions, over each driver; events in the outbox, and sent after the COMMIT. */
export const transactions: Kind<Transactions> = {
  prefix: 't',
  any: anyTransactions,
  modes: ['outbox', 'afterCommit'].flatMap((way) => drivers.map((driver) => `${driver} ${way}`)),
  render: (program, id, mode) => ({ id, ...renderTransactions(program, id, mode.endsWith('outbox')) }),
  async ways(mode) {
    const [driver, way] = mode.split(' ') as [Driver, string];
    const isStored = way === 'outbox';
    const { fresh } = await databaseOf(driver);
    return [
      { args: [], env: {}, database: () => fresh(false) },
      { ...svc, database: () => fresh(isStored), isStored },
    ];
  },
};

/** Those of one driver, started when they are first asked for. */
export function databaseOf(driver: Driver): Promise<Databases> {
  const known = databases.get(driver) ?? databasesOf(driver);
  databases.set(driver, known);
  return known;
}

export async function stopDatabases(): Promise<void> {
  const started = await Promise.allSettled(databases.values());
  await Promise.all(started.map((each) => (each.status === 'fulfilled' ? each.value.stop() : undefined)));
}
