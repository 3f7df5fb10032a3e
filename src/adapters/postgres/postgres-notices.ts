import { randomUUID } from 'node:crypto';
import { sleep } from '../../ground/builtins.ts';
import { backoffMs, inTime } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import { besideTable, partsOfTable, quoteName } from '../../outbox/insert-row.ts';
import type { Notices } from '../../outbox/notices.ts';
import type { ServerConnection } from '../sql/server-database.ts';
import type { SqlDatabase } from '../sql/sql-store.ts';
import { query } from '../sql/statement.ts';
import type { Heard } from './postgres-connection.ts';

export interface PostgresNoticesOptions {
  readonly table: string;
  /** Of the store: notices go out between its other work. */
  readonly database: Pick<SqlDatabase, 'run'>;
  /** For listening: one that is used for nothing else. */
  readonly connect: (heard: Heard) => Promise<ServerConnection>;
  readonly timeoutMs: number;
  readonly logger: Logger | undefined;
  /** How long the first notice may take that is sent to prove the way. Default 5000. */
  readonly proofMs?: number;
}

const firstPauseMs = 500;
const longestPauseMs = 30_000;
/** How often a connection is asked that says nothing: a network can lose it without a word. */
const checkMs = 30_000;
/** Until the next try where no notices come through. */
const deafMs = 600_000;

/** NOTIFY and LISTEN on a channel beside the table, without its schema, which is not written down everywhere alike. */
export function postgresNotices(options: PostgresNoticesOptions): Notices {
  const { table, database, connect, timeoutMs, logger, proofMs = 5_000 } = options;
  const channel = besideTable(partsOfTable(table)?.name ?? table, '_stored');
  let isSaid = false;

  async function send(payload: string): Promise<void> {
    await database.run(() => query('SELECT pg_notify(?, ?)', channel, payload), { as: 'statement' });
  }

  /** Until the connection is lost or `stopping`. Returns how long to wait before the next. Throws where it cannot begin. */
  async function listenOnce(hear: Hear, stopping: AbortSignal): Promise<number> {
    const lost = new AbortController();
    const proven = new AbortController();
    const over = AbortSignal.any([stopping, lost.signal]);
    const proof = `proof ${randomUUID()}`;
    const connection = await connect({
      notice(payload) {
        if (payload === proof) proven.abort();
        else if (/^\d+(,\d+)*$/.test(payload)) hear(payload.split(',').map(Number));
      },
      lost: () => lost.abort(),
    });
    const run = (sql: string): Promise<unknown> =>
      inTime(connection.run({ sql, values: [], hasRows: false }), {
        limitMs: timeoutMs,
        keepsAlive: false,
        late: () => Promise.reject(new Error('no answer in time')),
      });
    try {
      await run(`LISTEN ${quoteName('postgres', channel)}`);
      hear();
      await send(proof);
      await pause(proofMs, AbortSignal.any([over, proven.signal]));
      if (!proven.signal.aborted) {
        if (!over.aborted) sayDeaf();
        return over.aborted ? firstPauseMs : deafMs;
      }
      while (!over.aborted) {
        await pause(checkMs, over);
        if (!over.aborted) await run('SELECT 1');
      }
      return firstPauseMs;
    } finally {
      if (stopping.aborted) await connection.leave();
      else connection.destroy();
    }
  }

  function sayDeaf(): void {
    if (isSaid) return;
    isSaid = true;
    logger?.info(
      'outbox: the database lets no NOTIFY through, as with PgBouncer in transaction mode: rows of other processes are found every svc.outbox.poll-interval-ms',
    );
  }

  return {
    send: (shards) => send(shards.join(',')),
    async listen(hear, stopping) {
      for (let failures = 0; !stopping.aborted; ) {
        let waitMs: number;
        try {
          waitMs = await listenOnce(hear, stopping);
          failures = 0;
        } catch {
          // The reader of the table says what is wrong with the database.
          waitMs = backoffMs(++failures, firstPauseMs, longestPauseMs);
        }
        await pause(waitMs, stopping);
      }
    },
  };
}

type Hear = Parameters<Notices['listen']>[0];

/** Holds no process. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => {});
}
