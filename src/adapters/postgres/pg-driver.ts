import { isOwnWork } from '../../ground/lifecycle.ts';
import { assertShape } from '../../transaction/assert-shape.ts';
import type {
  Connections,
  DriverPatch,
  RowsBeforeCommit,
  WatchedConnection,
} from '../../transaction/driver.ts';
import { patchMethod, withoutWrappers } from '../../transaction/patch-method.ts';
import { bindOnce, patchOnce } from '../../transaction/patch-once.ts';
import { inScopeOfCaller } from '../../transaction/scope.ts';
import { type Callback, canFollowRows, type PgClient, PgSession, type Query } from './pg-session.ts';

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
      throw new Error(
        'its client is pg-native: leave NODE_PG_FORCE_NATIVE out, or name transactions with outbox.withTransaction',
      );
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
