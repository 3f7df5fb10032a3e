import { crc32 } from 'node:zlib';
import { isOwnWork } from '../../ground/lifecycle.ts';
import {
  type Connections,
  type DriverPatch,
  type DriverSession,
  type RowsBeforeCommit,
  type Statement,
  type TransactionEnd,
  TransactionOver,
  type TransactionStatus,
  type WatchedConnection,
} from '../../transaction/driver.ts';
import {
  assertShape,
  bindOnce,
  patchMethod,
  patchOnce,
  withoutWrappers,
} from '../../transaction/patch-method.ts';
import { inScopeOfCaller } from '../../transaction/transaction.ts';

interface Pg {
  readonly Client?: { readonly prototype: PgClient; readonly Query?: { readonly prototype: object } };
  readonly Pool?: { readonly prototype: object };
}

export const pgDriver: DriverPatch = {
  specifier: 'pg',
  patch(exports, connections) {
    const { Client, Pool } = exports as Pg;
    // Its queries run in libpq, which reports no transactions.
    if (Client?.Query !== undefined && !('handleReadyForQuery' in Client.Query.prototype))
      throw new Error('its client is pg-native: unset NODE_PG_FORCE_NATIVE, or use outbox.withTransaction');
    assertShape(exports, used);
    if (Client !== undefined) patchOnce(Client.prototype, () => patchClient(Client.prototype, connections));
    const pool = poolOf(Pool);
    if (pool !== undefined) patchOnce(pool, () => patchPool(pool));
  },
  bindCallbacks(exports) {
    const { Client, Pool } = exports as Pg;
    const prototype = Client?.prototype;
    if (typeof prototype?.query === 'function') bindOnce(prototype, () => bindQueries(prototype));
    const pool = poolOf(Pool);
    if (pool !== undefined) bindOnce(pool, () => patchPool(pool));
  },
};

/** `pg.Pool` delegates to the pool of the separate package `pg-pool`. */
function poolOf(Pool: Pg['Pool']): { connect: Connect } | undefined {
  const pool = Pool && (Object.getPrototypeOf(Pool.prototype) as { connect?: unknown });
  return typeof pool?.connect === 'function' ? (pool as { connect: Connect }) : undefined;
}

function bindQueries(prototype: PgClient): void {
  patchMethod(prototype, 'query', (behind) => {
    return function query(this: PgClient, ...args: [unknown, unknown?, unknown?]): unknown {
      return Reflect.apply(behind(), this, isOwnWork() ? args : bindToCaller(args));
    };
  });
}

/** The rest of a connection is checked at its first use, because a client makes its own. */
const used = [
  ...['query', 'on', 'once', 'removeListener'].map((name) => `Client.prototype.${name}`),
  ...['handleCommandComplete', 'handleReadyForQuery'].map((name) => `Client.Query.prototype.${name}`),
];

function patchClient(prototype: PgClient, connections: Connections): void {
  const sessions = new WeakMap<WatchedConnection, PgSession>();
  patchMethod(prototype, 'query', (behind) => {
    return function query(this: PgClient, ...args: [unknown, unknown?, unknown?]): unknown {
      if (isOwnWork()) return Reflect.apply(withoutWrappers(behind()), this, args);
      const connection = connections.of(this, (made) => {
        const session = new PgSession(this, behind, made);
        sessions.set(made, session);
        return session;
      });
      if (connection === undefined) return Reflect.apply(behind(), this, args);
      const { text, canFollow } = lookAt(args, this);
      const admission = admit(connection, text, canFollow);
      const bound = bindToCaller(args);
      if (admission === undefined) return Reflect.apply(behind(), this, bound);
      if (admission instanceof Promise) return whenAdmitted(admission, this, behind, bound);
      return commitWith(admission, sessions.get(connection) as PgSession, text ?? '', bound);
    };
  });
}

/** Callbacks and listeners are called from the socket, without the context of the caller. */
function bindToCaller<Args extends readonly unknown[]>(args: Args): Args {
  const at = args.findIndex((each) => typeof each === 'function');
  if (at >= 0) return args.with(at, inScopeOfCaller(args[at])) as unknown as Args;
  const query = args[0] as { submit?: unknown; emit?: unknown; callback?: unknown } | null | undefined;
  if (typeof query !== 'object' || query === null) return args;
  if (typeof query.submit === 'function') {
    // A query that submits itself is used once.
    const value = inScopeOfCaller(query.emit);
    if (typeof value === 'function')
      Object.defineProperty(query, 'emit', { value, writable: true, configurable: true, enumerable: false });
    if (typeof query.callback === 'function') query.callback = inScopeOfCaller(query.callback);
    return args;
  }
  if (typeof query.callback !== 'function') return args;
  const copy = Object.assign(Object.create(Object.getPrototypeOf(query)), query);
  return args.with(0, Object.assign(copy, { callback: inScopeOfCaller(query.callback) })) as unknown as Args;
}

/** `pg` itself reports arguments that it cannot read. */
function lookAt(
  args: [unknown, unknown?, unknown?],
  client: PgClient,
): { text: string | undefined; canFollow: boolean } {
  try {
    return { text: textOf(args[0], client), canFollow: canFollowRows(client, args) };
  } catch {
    return { text: undefined, canFollow: false };
  }
}

function admit(
  connection: WatchedConnection,
  text: string | undefined,
  canFollow: boolean,
): Promise<void> | RowsBeforeCommit | undefined {
  try {
    if (text === undefined) return connection.sendsNoText();
    return canFollow ? connection.sendsWithRows(text) : connection.sends(text);
  } catch (error) {
    return Promise.reject(error);
  }
}

/** As in `pg`: with a callback, or with a promise. */
function commitWith(
  rows: RowsBeforeCommit,
  session: PgSession,
  text: string,
  args: readonly unknown[],
): unknown {
  const callback = args.find((each) => typeof each === 'function') as Callback | undefined;
  if (callback !== undefined) return session.commit(text, rows, callback);
  return new Promise((resolve, reject) => {
    session.commit(text, rows, (error, result) => (error ? reject(error) : resolve(result)));
  });
}

function textOf(config: unknown, { connection }: PgClient): string | undefined {
  if (typeof config === 'string') return config;
  // A cursor hides its text. A prepared statement may be sent by its name alone.
  const { text, cursor, name } = (config ?? {}) as {
    text?: unknown;
    cursor?: { text?: unknown };
    name?: unknown;
  };
  const given = text ?? cursor?.text ?? connection.parsedStatements?.[String(name)];
  return typeof given === 'string' ? given : undefined;
}

/** As `query` of `pg`: with a callback, a promise, or an object that submits itself. */
function whenAdmitted(
  admission: Promise<void>,
  client: PgClient,
  behind: () => Query,
  args: [unknown, unknown?, unknown?],
): unknown {
  const send = (): unknown => Reflect.apply(behind(), client, args);
  const config = args[0] as {
    submit?: unknown;
    callback?: unknown;
    handleError?: (...given: unknown[]) => void;
  };
  const callback = [args[1], args[2], config.callback].find((each) => typeof each === 'function');
  if (typeof config.submit === 'function') {
    admission.then(send, (error) => config.handleError?.(error, client.connection));
    return config;
  }
  if (callback === undefined) return admission.then(send);
  admission.then(send, callback as Callback);
  return undefined;
}

type Connect = (this: object, callback?: Callback) => unknown;

/** The pool may hand out a client in the context of another caller, which has released it. */
function patchPool(prototype: { connect: Connect }): void {
  patchMethod(prototype, 'connect', (behind) => {
    return function connect(this: object, callback?: Callback): unknown {
      return Reflect.apply(behind(), this, [inScopeOfCaller(callback)]);
    };
  });
}

/** The part of a client's connection that svc uses, as other packages on top of `pg` do. */
interface PgWire {
  readonly stream: { readonly writable: boolean; write(bytes: Buffer): unknown };
  parse(message: { text: string; name?: string }): void;
  bind(message: { statement?: string; values?: readonly unknown[] }): void;
  /** Without a limit: all rows. */
  execute(message: object): void;
  close(message: { type: 'S'; name: string }): void;
  sync(): void;
}

/** The state of one connection, for the prepared INSERT. */
interface RowPreparation {
  /** Whether no pooler is in between, so that prepared statements stay. */
  isDirect: boolean | undefined;
  /** Text of a prepared statement -> its name. */
  readonly names: Map<string, string>;
}

/** `row`: the database has refused a row, and run nothing after it. `driver`: the database has not answered. */
type ErrorSource = 'row' | 'commit' | 'driver';

interface RowBatch {
  readonly statements: readonly Statement[];
  /** The statement of the application after the rows. It returns no rows. */
  readonly commit?: string | undefined;
  readonly preparation: RowPreparation;
  /** The backend's process id at the start of the connection. */
  readonly processId: unknown;
  status(): TransactionStatus;
  /** `as`: the object of `pg`, which may be a copy. */
  onAnswered(as: Submitted): void;
  onError(error: unknown, from: ErrorSource, as: Submitted): void;
  onCommitted?(message: unknown, wire: PgWire): void;
}

/** The object that `pg` takes in place of a query. */
interface Submitted {
  readonly text: string;
  /** Set by `pg`, from the arguments of the query. */
  callback?: (error: unknown, ...results: unknown[]) => void;
  /** Returns an error, as `pg` requires. A thrown error would reach the caller of another function. */
  submit(wire: PgWire): unknown;
  handleDataRow(message?: { readonly fields?: readonly unknown[] }): void;
  handleCommandComplete(message: unknown, wire: PgWire): void;
  handleReadyForQuery(): void;
  handleError(error?: { readonly severity?: unknown; readonly code?: unknown }): void;
  handleRowDescription(): void;
  handleEmptyQuery(): void;
  handlePortalSuspended(): void;
}

const backendOf: Statement = { text: 'SELECT pg_backend_pid()', values: [] };

/**
 * Sends rows of svc, and after them a COMMIT of the application if there is one, in one write with one answer. If the database
 * refuses a row, it skips the rest, with the COMMIT.
 *
 * The INSERT is prepared on a direct connection only: a pooler may give the next transaction to another backend. The first rows
 * of a connection ask for the backend's process id. It equals the one from the connect only without a pooler.
 */
function submitRows(batch: RowBatch): Submitted {
  const { commit, preparation } = batch;
  let expected = batch.statements;
  let fresh: Map<string, string> | undefined;
  let done = 0;

  function statementsNow(): readonly Statement[] {
    // Known only now: an earlier statement may have failed.
    if (batch.status() !== 'open') return [];
    return preparation.isDirect === undefined ? [backendOf, ...batch.statements] : batch.statements;
  }

  /** Returns the name to bind; empty if not prepared. */
  function parse(wire: PgWire, text: string): string {
    const known = preparation.names.get(text) ?? fresh?.get(text);
    if (known !== undefined) return known;
    const name = preparation.isDirect === true ? nameOf(text) : '';
    if (name !== '') {
      // It may exist after an earlier failure.
      wire.close({ type: 'S', name });
      fresh ??= new Map();
      fresh.set(text, name);
    }
    wire.parse({ text, name });
    return name;
  }

  function send(wire: PgWire): void {
    for (const { text, values } of expected) {
      const statement = parse(wire, text);
      wire.bind({ statement, values: values.map(asText) });
      wire.execute(all);
    }
    if (commit !== undefined) {
      wire.parse({ text: commit });
      wire.bind(all);
      wire.execute(all);
    }
    wire.sync();
  }

  return {
    text: commit ?? batch.statements[0]?.text ?? '',
    submit(wire) {
      expected = statementsNow();
      try {
        inOneWrite(wire, send);
        return null;
      } catch (error) {
        return error;
      }
    },
    handleDataRow(message) {
      if (expected[done] === backendOf)
        preparation.isDirect = String(message?.fields?.[0]) === String(batch.processId);
    },
    handleCommandComplete(message, wire) {
      const { text } = expected[done++] ?? {};
      if (text === undefined) batch.onCommitted?.(message, wire);
      const name = text && fresh?.get(text);
      if (name) preparation.names.set(text, name);
    },
    handleReadyForQuery() {
      batch.onAnswered(this);
    },
    handleError(error) {
      // An error of the driver, such as a lost connection or a time-out, says nothing about the rows.
      const isOfDatabase = typeof error?.severity === 'string';
      const from = !isOfDatabase ? 'driver' : done < expected.length ? 'row' : 'commit';
      if (from === 'row' && preparation.isDirect && namesAreGone(error?.code)) {
        preparation.names.clear();
        preparation.isDirect = false;
      }
      batch.onError(error, from, this);
    },
    handleRowDescription: nothing,
    handleEmptyQuery: nothing,
    handlePortalSuspended: nothing,
  };
}

const all = {};

function nothing(): void {}

/** SQLSTATE: the prepared statement does not exist, exists already, or has changed its meaning. */
const namesAreGone = (code: unknown): boolean => code === '26000' || code === '42P05' || code === '0A000';

const checksums = new Map<string, string>();

function nameOf(text: string): string {
  const checksum = checksums.get(text) ?? crc32(text).toString(16);
  checksums.set(text, checksum);
  return `svc_${checksum}`;
}

const asText = (value: unknown): unknown => (typeof value === 'number' ? String(value) : value);

const collectors = new WeakMap<PgWire, { readonly pieces: Buffer[]; readonly wire: PgWire }>();

/** Otherwise each message would be a separate write. */
function inOneWrite(wire: PgWire, send: (wire: PgWire) => void): void {
  let collector = collectors.get(wire);
  if (collector === undefined) {
    const pieces: Buffer[] = [];
    const stream = { writable: true, write: (piece: Buffer): boolean => pieces.push(piece) > 0 };
    // A separate object: V8 is slow with an object that is the prototype of another.
    collector = { pieces, wire: Object.create(Object.getPrototypeOf(wire), { stream: { value: stream } }) };
    collectors.set(wire, collector);
  }
  collector.pieces.length = 0;
  send(collector.wire);
  const bytes = Buffer.concat(collector.pieces.splice(0));
  if (wire.stream.writable) wire.stream.write(bytes);
}

type Callback = (error: unknown, ...results: unknown[]) => void;
type Query = (this: PgClient, config: unknown, values?: unknown, callback?: unknown) => unknown;

interface PgConnection extends PgWire {
  readonly parsedStatements?: Readonly<Record<string, unknown>>;
  prependListener(event: string, listener: (message?: { status?: string; text?: string }) => void): void;
  on(event: 'readyForQuery', listener: () => void): void;
  removeListener(event: 'readyForQuery', listener: () => void): void;
  listenerCount(event: string): number;
}

/** The part of a client of `pg`, 8 and later, that svc uses. */
interface PgClient {
  readonly connection: PgConnection;
  readonly readyForQuery?: boolean;
  readonly processID?: unknown;
  /** It sends queries without waiting for answers, and takes queries only. */
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

/** They drop the prepared statements of the application and of svc. */
const dropsPrepared = /^(?:DISCARD ALL|DEALLOCATE)/;
const begins = /^(?:BEGIN|START TRANSACTION)$/;
const statuses: Readonly<Record<string, TransactionStatus>> = { I: 'none', T: 'open', E: 'aborted' };

/** One client of the application, observed on its socket. */
class PgSession implements DriverSession {
  readonly dialect = 'postgres';
  readonly runAll?: (statements: readonly Statement[], isOpen: () => boolean) => Promise<void>;
  private readonly client: PgClient;
  /** The original `query`. */
  private readonly query: () => Query;
  private readonly preparation: RowPreparation = { isDirect: undefined, names: new Map() };
  private known: TransactionStatus = 'none';
  private hasEnded = false;

  constructor(client: PgClient, query: () => Query, connection: WatchedConnection) {
    assertShape(client, usedByPgSession);
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

  /** Waits for other statements first: `pg` deprecates queued queries, and the status would be old. */
  async run({ text, values }: Statement, isOpen = always): Promise<void> {
    if (!(await this.isFree(isOpen)) && text !== 'ROLLBACK') return;
    await new Promise<void>((resolve, reject) => {
      const answered: Callback = (error) => (error ? reject(error) : resolve());
      this.sendOwn([{ text, values }, undefined, answered]);
    });
  }

  /** Sends rows before a COMMIT of the application. `done` gets the result of the COMMIT alone. */
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
      // `pg` calls it if the client has a time limit.
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

  /** Waits for statements in flight. `false`: the transaction can only be rolled back. Rejects without a transaction. */
  private async isFree(isOpen: () => boolean): Promise<boolean> {
    if (this.isBusy() && !this.hasEnded) await drained(this.client);
    if (this.known === 'none' || !isOpen()) throw new TransactionOver();
    // Known only now: a statement in flight may have failed.
    return this.known === 'open';
  }

  private listen(connection: WatchedConnection): void {
    const { client } = this;
    let ended: TransactionEnd | undefined;
    let isNext = false;
    let hasFailed = false;
    // Before the client's own listeners, which call the application back.
    client.connection.prependListener('commandComplete', (message) => {
      const text = message?.text;
      if (message && typeof text !== 'string') connection.isNotUnderstood(unheard('commandComplete'));
      // After a COMMIT, the rest of a text is another transaction. ROLLBACK TO is answered like ROLLBACK.
      if (!isNext && text === 'COMMIT') ended = 'committed';
      else if (!isNext && text === 'ROLLBACK') ended = 'rolled_back';
      else if (text?.startsWith('D') && dropsPrepared.test(text)) this.preparation.names.clear();
      isNext ||= ended === 'committed' || (ended !== undefined && begins.test(text ?? ''));
    });
    client.connection.prependListener('errorMessage', () => {
      hasFailed = true;
      // The application gets the error before the database reports the status.
      if (this.known === 'open') this.known = 'aborted';
    });
    client.connection.prependListener('readyForQuery', (message) => {
      if (message && typeof message.status !== 'string') connection.isNotUnderstood(unheard('readyForQuery'));
      const before = this.known;
      this.known = statuses[message?.status ?? 'I'] ?? 'none';
      // A refused COMMIT, as for a deferred constraint or a conflict, has rolled back.
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

const usedByPgSession = [
  ...['on', 'once', 'removeListener', 'connection.prependListener', 'connection.stream.write'],
  ...['parse', 'bind', 'execute', 'close', 'sync'].map((name) => `connection.${name}`),
];
const heard = ['commandComplete', 'errorMessage', 'readyForQuery'];

/** `pg` listens for them as soon as it connects. If only some have listeners, this version has renamed the others. */
function assertHeard({ connection, readyForQuery }: PgClient): void {
  const missing = heard.filter((event) => connection.listenerCount(event) === 0);
  const isConnected = readyForQuery === true || missing.length < heard.length;
  if (isConnected && missing.length > 0)
    throw new Error(`its connection does not report ${missing.join(', ')}`);
}

/** Whether rows can be sent before it, if it is a COMMIT: it needs no more than a plain run. */
function canFollowRows(client: PgClient, [config, values]: readonly unknown[]): boolean {
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

/** After the client's own listener, which may send the next query of the application. */
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
  return new Error(`its ${event} does not report the same as the versions that svc knows`);
}
