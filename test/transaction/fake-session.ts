import { Connection } from '../../src/transaction/connection.ts';
import type { Dialect, DriverSession, TransactionStatus } from '../../src/transaction/driver.ts';
import type { TransactionEnd } from '../../src/transaction/transaction.ts';

/** A connection whose database answers when a test says so. */
export interface FakeConnection {
  readonly connection: Connection;
  /** What svc itself has sent, in order. */
  readonly sent: string[];
  status: TransactionStatus;
  beginsByItself: boolean;
  /** Whether answers are missing, as `pg` knows it; `undefined`: the driver does not say. */
  isBusy: boolean | undefined;
  /** Answers the oldest of svc's statements that waits. */
  answer(error?: Error): Promise<void>;
  /** A statement of the application, and its answer. */
  run(text: string, status: TransactionStatus, ended?: TransactionEnd): Promise<void>;
  readonly ungated: number;
}

const made: Connection[] = [];

/** After a test: what follows it in the context of its BEGIN is in no transaction. */
export function loseConnections(): void {
  for (const connection of made.splice(0)) connection.isLost();
}

/**
 * `sync`: its statements are answered at once, and those with the text `fails` are not taken. `holds`: rows wait for the next
 * statement.
 */
export function fakeConnection(
  dialect: Dialect = 'postgres',
  manner: 'async' | 'sync' | 'holds' = 'async',
): FakeConnection {
  const waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
  let ungated = 0;
  const session: DriverSession = {
    dialect,
    status: () => fake.status,
    beginsByItself: () => fake.beginsByItself,
    isBusy: () => fake.isBusy as boolean,
    run({ text }) {
      fake.sent.push(text);
      if (manner === 'sync') {
        if (text === 'fails') throw new Error(text);
        if (text === 'ROLLBACK') {
          fake.status = 'none';
          fake.connection.answered('none', 'rolled_back');
        }
        return undefined;
      }
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    ...(manner === 'holds' && {
      runAll(statements) {
        fake.sent.push(...statements.map(({ text }) => text));
        return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
      },
    }),
  };
  const onUnseenCommit = (): void => {
    ungated++;
  };
  const fake: FakeConnection = {
    connection: new Connection(() => session, onUnseenCommit),
    sent: [],
    status: 'none',
    beginsByItself: false,
    isBusy: undefined,
    async answer(error) {
      const next = waiting.shift();
      if (error === undefined) next?.resolve();
      else next?.reject(error);
      await new Promise((resolve) => setImmediate(resolve));
    },
    async run(text, status, ended) {
      await fake.connection.sends(text);
      fake.status = status;
      fake.connection.answered(status, ended);
    },
    get ungated() {
      return ungated;
    },
  };
  made.push(fake.connection);
  return fake;
}
