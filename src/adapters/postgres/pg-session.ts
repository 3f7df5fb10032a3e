import { assertShape } from '../../transaction/assert-shape.ts';
import {
  type DriverSession,
  type RowsBeforeCommit,
  type Statement,
  type TransactionEnd,
  TransactionOver,
  type TransactionStatus,
  type WatchedConnection,
} from '../../transaction/driver.ts';
import { withoutWrappers } from '../../transaction/patch-method.ts';
import { type PgWire, type RowPreparation, submitRows } from './pg-rows.ts';

export type Callback = (error: unknown, ...results: unknown[]) => void;
export type Query = (this: PgClient, config: unknown, values?: unknown, callback?: unknown) => unknown;

interface PgConnection extends PgWire {
  /** By their names. */
  readonly parsedStatements?: Readonly<Record<string, unknown>>;
  prependListener(event: string, listener: (message?: { status?: string; text?: string }) => void): void;
  on(event: 'readyForQuery', listener: () => void): void;
  removeListener(event: 'readyForQuery', listener: () => void): void;
  listenerCount(event: string): number;
}

/** What is used of a client of `pg`, 8 and later. */
export interface PgClient {
  readonly connection: PgConnection;
  readonly readyForQuery?: boolean;
  readonly processID?: unknown;
  /** It sends queries without waiting for answers, and takes nothing but queries. */
  readonly pipeline?: boolean;
  query: Query;
  once(event: 'end', listener: () => void): void;
  removeListener(event: 'end', listener: () => void): void;
  on(event: 'end', listener: () => void): void;
}

/** `Query` of `pg`, which makes a result of the messages of the database. */
interface PgQuery {
  handleCommandComplete(message: unknown, connection: unknown): void;
  handleReadyForQuery(connection: unknown): void;
}
type QueryClass = new (config: unknown, values: unknown, callback: Callback) => PgQuery;

/** What the application prepared is gone with it, and what svc did. */
const dropsPrepared = /^(?:DISCARD ALL|DEALLOCATE)/;
const begins = /^(?:BEGIN|START TRANSACTION)$/;
const statuses: Readonly<Record<string, TransactionStatus>> = { I: 'none', T: 'open', E: 'aborted' };

/** One client of the application, as its socket tells of it. */
export class PgSession implements DriverSession {
  readonly dialect = 'postgres';
  readonly runAll?: (statements: readonly Statement[], isOpen: () => boolean) => Promise<void>;
  private readonly client: PgClient;
  /** That behind ours. */
  private readonly query: () => Query;
  private readonly preparation: RowPreparation = { isDirect: undefined, names: new Map() };
  private known: TransactionStatus = 'none';
  private hasEnded = false;

  constructor(client: PgClient, query: () => Query, connection: WatchedConnection) {
    assertShape(client, used);
    assertHeard(client);
    this.client = client;
    this.query = query;
    if (client.pipeline !== true) this.runAll = (statements, isOpen) => this.runRows(statements, isOpen);
    this.listen(connection);
  }

  status(): TransactionStatus {
    return this.known;
  }

  isBusy(): boolean {
    return this.client.readyForQuery === false;
  }

  /** Not behind other statements: `pg` speaks of that as deprecated, and the status would be an old one. */
  async run({ text, values }: Statement, isOpen = always): Promise<void> {
    if (!(await this.isFree(isOpen)) && text !== 'ROLLBACK') return;
    await new Promise<void>((resolve, reject) => {
      const answered: Callback = (error) => (error ? reject(error) : resolve());
      this.sendOwn([{ text, values }, undefined, answered]);
    });
  }

  /** A COMMIT of the application with rows ahead of it; `done` gets what it would have got without them. */
  commit(
    text: string,
    { statements, answered, unanswered, refused }: RowsBeforeCommit,
    done: Callback,
  ): void {
    const { Query } = this.client.constructor as unknown as { Query: QueryClass };
    let onResult: Callback = () => {};
    const result = new Query({ text }, undefined, (error, found) => onResult(error, found));
    const submitted = submitRows({
      ...this.batch(statements),
      commit: text,
      onCommitted: (message, wire) => result.handleCommandComplete(message, wire),
      onAnswered: (as) => {
        answered();
        onResult = (error, found) => as.callback?.(error, found);
        result.handleReadyForQuery(this.client.connection);
      },
      onError: (error, from, as) => {
        if (from === 'driver') unanswered(error);
        else if (from === 'commit') answered();
        const told: Promise<never> = from === 'row' ? refused(error) : Promise.reject(error);
        told.catch((reason: unknown) => as.callback?.(reason));
      },
    });
    Reflect.apply(this.query(), this.client, [submitted, done]);
  }

  private async runRows(statements: readonly Statement[], isOpen: () => boolean): Promise<void> {
    if (!(await this.isFree(isOpen))) return;
    await new Promise<void>((resolve, reject) => {
      const submitted = submitRows({
        ...this.batch(statements),
        onAnswered: () => resolve(),
        onError: reject,
      });
      // With a time limit of the client `pg` calls it.
      const told: Callback = (error) => error && reject(error);
      this.sendOwn([submitted, told]);
    });
  }

  private sendOwn(args: Parameters<Query>): void {
    Reflect.apply(withoutWrappers(this.query()), this.client, args);
  }

  private batch(statements: readonly Statement[]) {
    const { preparation, client } = this;
    return { statements, preparation, processId: client.processID, status: () => this.known };
  }

  /** Waits for what is on its way. `false`: the transaction will only be rolled back. Rejects where there is none. */
  private async isFree(isOpen: () => boolean): Promise<boolean> {
    if (this.isBusy() && !this.hasEnded) await drained(this.client);
    if (this.known === 'none' || !isOpen()) throw new TransactionOver();
    // Known only now: what was on its way may have failed.
    return this.known === 'open';
  }

  private listen(connection: WatchedConnection): void {
    const { client } = this;
    let ended: TransactionEnd | undefined;
    let isNext = false;
    let hasFailed = false;
    // Before the client's own listeners: they call the application back.
    client.connection.prependListener('commandComplete', (message) => {
      const text = message?.text;
      if (message && typeof text !== 'string') connection.isNotUnderstood(unheard('commandComplete'));
      // Of several statements in one text, the rest is another transaction's. ROLLBACK TO is answered like ROLLBACK, and ends none.
      if (!isNext && text === 'COMMIT') ended = 'committed';
      else if (!isNext && text === 'ROLLBACK') ended = 'rolled_back';
      else if (text?.startsWith('D') && dropsPrepared.test(text)) this.preparation.names.clear();
      isNext ||= ended === 'committed' || (ended !== undefined && begins.test(text ?? ''));
    });
    client.connection.prependListener('errorMessage', () => {
      hasFailed = true;
      // The application hears of the error before the database says where the connection stands.
      if (this.known === 'open') this.known = 'aborted';
    });
    client.connection.prependListener('readyForQuery', (message) => {
      if (message && typeof message.status !== 'string') connection.isNotUnderstood(unheard('readyForQuery'));
      const before = this.known;
      this.known = statuses[message?.status ?? 'I'] ?? 'none';
      // A COMMIT that the database refuses, for a deferred constraint or another transaction, has rolled back.
      if (hasFailed && before !== 'none' && this.known === 'none') ended ??= 'rolled_back';
      connection.answered(this.known, ended);
      ended = undefined;
      isNext = false;
      hasFailed = false;
    });
    client.on('end', () => {
      this.known = 'none';
      this.hasEnded = true;
      connection.isLost();
    });
  }
}

const used = [
  ...['on', 'once', 'removeListener', 'connection.prependListener', 'connection.stream.write'],
  ...['parse', 'bind', 'execute', 'close', 'sync'].map((name) => `connection.${name}`),
];
const heard = ['commandComplete', 'errorMessage', 'readyForQuery'];

/** `pg` itself listens for them as soon as it connects: if to some only, the others have another name by now. */
function assertHeard({ connection, readyForQuery }: PgClient): void {
  const missing = heard.filter((event) => connection.listenerCount(event) === 0);
  const isConnected = readyForQuery === true || missing.length < heard.length;
  if (isConnected && missing.length > 0)
    throw new Error(`its connection does not tell of ${missing.join(', ')}`);
}

/** What can be sent with rows ahead of it, if it is a COMMIT: it asks for nothing more than to be run. */
export function canFollowRows(client: PgClient, [config, values]: readonly unknown[]): boolean {
  if (typeof config !== 'string' && (typeof config !== 'object' || config === null)) return false;
  if (client.pipeline === true || (client.constructor as { Query?: unknown }).Query === undefined)
    return false;
  if (Array.isArray(values) && values.length > 0) return false;
  if (typeof config === 'string') return true;
  const { submit, name, rows, callback, query_timeout, values: own } = config as Record<string, unknown>;
  const asksForMore = [submit, name, rows, callback, query_timeout].some((each) => each !== undefined);
  return !asksForMore && (own === undefined || (Array.isArray(own) && own.length === 0));
}

function always(): boolean {
  return true;
}

/** Behind the client's own listener: it says whether another query of the application is on its way by then. */
function drained(client: PgClient): Promise<void> {
  return new Promise((resolve, reject) => {
    const onReady = (): void => {
      if (client.readyForQuery === false) return;
      forget();
      resolve();
    };
    const onEnd = (): void => {
      forget();
      reject(new Error('the connection has ended'));
    };
    const forget = (): void => {
      client.connection.removeListener('readyForQuery', onReady);
      client.removeListener('end', onEnd);
    };
    client.connection.on('readyForQuery', onReady);
    client.once('end', onEnd);
  });
}

function unheard(event: string): Error {
  return new Error(`its ${event} does not tell what the versions tell that svc knows`);
}
