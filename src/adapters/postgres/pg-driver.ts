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
    // Its queries are answered by libpq, which tells nothing of transactions.
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

/** `pg.Pool` only hands its clients to the pool of `pg-pool`, which is a package of its own. */
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

/** Of its connections the rest is looked at when they are used: a client makes its own. */
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

/** Callbacks and listeners are called from the socket, where no context leads back to the caller. */
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

/** What `pg` cannot read either, it says itself. */
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

/** As `pg` does: calls back where there is a callback, else returns a promise. */
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
  // A cursor keeps its text to itself; what was prepared by a name may be sent by that alone.
  const { text, cursor, name } = (config ?? {}) as {
    text?: unknown;
    cursor?: { text?: unknown };
    name?: unknown;
  };
  const given = text ?? cursor?.text ?? connection.parsedStatements?.[String(name)];
  return typeof given === 'string' ? given : undefined;
}

/** `query` as `pg` has it: with a callback, a promise, or an object that submits itself. */
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

/** A client may be handed out from where another one was given back. */
function patchPool(prototype: { connect: Connect }): void {
  patchMethod(prototype, 'connect', (behind) => {
    return function connect(this: object, callback?: Callback): unknown {
      return Reflect.apply(behind(), this, [inScopeOfCaller(callback)]);
    };
  });
}

/** What is used of the connection of a client, as other packages on top of `pg` do. */
interface PgWire {
  readonly stream: { readonly writable: boolean; write(bytes: Buffer): unknown };
  parse(message: { text: string; name?: string }): void;
  bind(message: { statement?: string; values?: readonly unknown[] }): void;
  /** Without a limit: all rows. */
  execute(message: object): void;
  close(message: { type: 'S'; name: string }): void;
  sync(): void;
}

/** What is known of one connection, for the statement that all rows share. */
interface RowPreparation {
  /** Nothing stands between this process and its backend, so that what is prepared is there the next time. */
  isDirect: boolean | undefined;
  /** Names of what is prepared, by its text. */
  readonly names: Map<string, string>;
}

/** `row`: the database has refused one, and run nothing after it. `driver`: the database has said nothing. */
type ErrorSource = 'row' | 'commit' | 'driver';

interface RowBatch {
  readonly statements: readonly Statement[];
  /** What the application sends behind them, with no answer but that it is done. */
  readonly commit?: string | undefined;
  readonly preparation: RowPreparation;
  /** The process id of the backend, as it was told when the client connected. */
  readonly processId: unknown;
  status(): TransactionStatus;
  /** `as`: what `pg` has, which may be a copy of what it was given. */
  onAnswered(as: Submitted): void;
  onError(error: unknown, from: ErrorSource, as: Submitted): void;
  onCommitted?(message: unknown, wire: PgWire): void;
}

/** As `pg` takes it in place of a query. */
interface Submitted {
  readonly text: string;
  /** `pg` puts it here, from the arguments of the query. */
  callback?: (error: unknown, ...results: unknown[]) => void;
  /** Returns an error as `pg` takes it; what a query throws here comes out of whatever the application has called. */
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
 * Rows of svc, and a COMMIT of the application behind them where there is one: one write, and one answer. Where the database
 * refuses a row it skips what follows, the COMMIT included.
 *
 * The statement of the rows is prepared on a connection that leads straight to its backend: behind a pooler, another backend may
 * get the next transaction. The first rows of a connection ask for the backend's process id on their way: it is the one that the
 * client was told only if nobody stands between them.
 */
function submitRows(batch: RowBatch): Submitted {
  const { commit, preparation } = batch;
  let expected = batch.statements;
  let fresh: Map<string, string> | undefined;
  let done = 0;

  function statementsNow(): readonly Statement[] {
    // Known only now: a statement that was still on its way may have failed.
    if (batch.status() !== 'open') return [];
    return preparation.isDirect === undefined ? [backendOf, ...batch.statements] : batch.statements;
  }

  /** Returns the name to bind; of what is not prepared the empty one. */
  function parse(wire: PgWire, text: string): string {
    const known = preparation.names.get(text) ?? fresh?.get(text);
    if (known !== undefined) return known;
    const name = preparation.isDirect === true ? nameOf(text) : '';
    if (name !== '') {
      // It may be there from a time that it did not come to its end.
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
      // What is not of the database says nothing of the rows: a connection that is gone, an answer that took too long.
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

/** SQLSTATE: there is no such prepared statement, or it is there already, or means something else by now. */
const namesAreGone = (code: unknown): boolean => code === '26000' || code === '42P05' || code === '0A000';

const checksums = new Map<string, string>();

function nameOf(text: string): string {
  const checksum = checksums.get(text) ?? crc32(text).toString(16);
  checksums.set(text, checksum);
  return `svc_${checksum}`;
}

const asText = (value: unknown): unknown => (typeof value === 'number' ? String(value) : value);

const collectors = new WeakMap<PgWire, { readonly pieces: Buffer[]; readonly wire: PgWire }>();

/** Each message would be a piece of its own for the socket. */
function inOneWrite(wire: PgWire, send: (wire: PgWire) => void): void {
  let collector = collectors.get(wire);
  if (collector === undefined) {
    const pieces: Buffer[] = [];
    const stream = { writable: true, write: (piece: Buffer): boolean => pieces.push(piece) > 0 };
    // Beside the connection, not on top of it: V8 is slow with an object that is another one's prototype.
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
  /** By their names. */
  readonly parsedStatements?: Readonly<Record<string, unknown>>;
  prependListener(event: string, listener: (message?: { status?: string; text?: string }) => void): void;
  on(event: 'readyForQuery', listener: () => void): void;
  removeListener(event: 'readyForQuery', listener: () => void): void;
  listenerCount(event: string): number;
}

/** What is used of a client of `pg`, 8 and later. */
interface PgClient {
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
class PgSession implements DriverSession {
  readonly dialect = 'postgres';
  readonly runAll?: (statements: readonly Statement[], isOpen: () => boolean) => Promise<void>;
  private readonly client: PgClient;
  /** That behind ours. */
  private readonly query: () => Query;
  private readonly preparation: RowPreparation = { isDirect: undefined, names: new Map() };
  private known: TransactionStatus = 'none';
  private hasEnded = false;

  constructor(client: PgClient, query: () => Query, connection: WatchedConnection) {
    assertShape(client, usedOfPgSession);
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

const usedOfPgSession = [
  ...['on', 'once', 'removeListener', 'connection.prependListener', 'connection.stream.write'],
  ...['parse', 'bind', 'execute', 'close', 'sync'].map((name) => `connection.${name}`),
];
const heard = ['commandComplete', 'errorMessage', 'readyForQuery'];

/** `pg` itself listens for them as soon as it connects: if to some only, the others have another name by now. */
function assertHeard({ connection, readyForQuery }: PgClient): void {
  const missing = heard.filter((event) => connection.listenerCount(event) === 0);
  const isConnected = readyForQuery === true || missing.length < heard.length;
  if (isConnected && missing.length > 0)
    throw new Error(`its connection does not report ${missing.join(', ')}`);
}

/** What can be sent with rows ahead of it, if it is a COMMIT: it asks for nothing more than to be run. */
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
  return new Error(`its ${event} does not report the same as the versions that svc knows`);
}
