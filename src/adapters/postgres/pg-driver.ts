import { isOwnWork } from '../../ground/lifecycle.ts';
import type {
  Connections,
  DriverPatch,
  DriverSession,
  Statement,
  TransactionEnd,
  TransactionStatus,
  WatchedConnection,
} from '../../transaction/driver.ts';
import { patchOnce } from '../../transaction/patch-once.ts';
import { currentScope, runInScope } from '../../transaction/scope.ts';

type Callback = (error: unknown, ...results: unknown[]) => void;
type Query = (this: PgClient, config: unknown, values?: unknown, callback?: unknown) => unknown;

/** What is used of a client of `pg`, 8 and later. */
interface PgClient {
  readonly connection: {
    prependListener(event: string, listener: (message: { status?: string; text?: string }) => void): void;
  };
  readonly readyForQuery?: boolean;
  query: Query;
  once(event: 'drain' | 'end', listener: () => void): void;
  removeListener(event: 'drain' | 'end', listener: () => void): void;
  on(event: 'end', listener: () => void): void;
}

interface Pg {
  readonly Client?: { readonly prototype: PgClient };
  readonly Pool?: { readonly prototype: object };
}

export const pgDriver: DriverPatch = {
  specifier: 'pg',
  patch(exports, connections) {
    const { Client, Pool } = exports as Pg;
    if (Client !== undefined) patchOnce(Client.prototype, () => patchClient(Client.prototype, connections));
    // `pg.Pool` only hands its clients to the pool of `pg-pool`, which is a package of its own.
    const pool = Pool && (Object.getPrototypeOf(Pool.prototype) as { connect?: unknown });
    if (typeof pool?.connect === 'function') patchOnce(pool, () => patchPool(pool as { connect: Connect }));
  },
};

function patchClient(prototype: PgClient, connections: Connections): void {
  const original = prototype.query;
  prototype.query = function query(this: PgClient, ...args: [unknown, unknown?, unknown?]): unknown {
    const text = textOf(args[0]);
    if (text === undefined || isOwnWork()) return Reflect.apply(original, this, args);
    const connection = connections.of(this, (made) => openSession(this, original, made));
    let admission: Promise<void> | undefined;
    try {
      admission = connection.sends(text);
    } catch (error) {
      admission = Promise.reject(error);
    }
    const bound = withScope(args);
    if (admission === undefined) return Reflect.apply(original, this, bound);
    return whenAdmitted(admission, this, original, bound);
  };
}

function textOf(config: unknown): string | undefined {
  if (typeof config === 'string') return config;
  // A cursor keeps its text to itself.
  const { text, cursor } = (config ?? {}) as { text?: unknown; cursor?: { text?: unknown } };
  const given = text ?? cursor?.text;
  return typeof given === 'string' ? given : undefined;
}

/** A callback is called from the socket, where no context leads back to the caller. */
function withScope(args: [unknown, unknown?, unknown?]): [unknown, unknown?, unknown?] {
  const scope = currentScope();
  const at = args.findIndex((each, index) => index > 0 && typeof each === 'function');
  if (scope === undefined || at < 0) return args;
  const callback = args[at] as Callback;
  return args.with(at, function (this: unknown, ...given: unknown[]): void {
    runInScope(scope, () => Reflect.apply(callback, this, given));
  }) as [unknown, unknown?, unknown?];
}

/** `query` as `pg` has it: with a callback, a promise, or an object that submits itself. */
function whenAdmitted(
  admission: Promise<void>,
  client: PgClient,
  original: Query,
  args: [unknown, unknown?, unknown?],
): unknown {
  const send = (): unknown => Reflect.apply(original, client, args);
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
  const original = prototype.connect;
  prototype.connect = function connect(this: object, callback?: Callback): unknown {
    const scope = currentScope();
    if (typeof callback !== 'function' || scope === undefined)
      return Reflect.apply(original, this, [callback]);
    const bound: Callback = (...given) => runInScope(scope, () => callback(...given));
    return Reflect.apply(original, this, [bound]);
  };
}

const statuses: Readonly<Record<string, TransactionStatus>> = { I: 'none', T: 'open', E: 'doomed' };

function openSession(client: PgClient, query: Query, connection: WatchedConnection): DriverSession {
  let status: TransactionStatus = 'none';
  let ended: TransactionEnd | undefined;
  let hasFailed = false;
  // Before the client's own listeners: they call the application back.
  client.connection.prependListener('commandComplete', ({ text }) => {
    if (text === 'COMMIT') ended = 'committed';
    else if (text === 'ROLLBACK') ended = 'rolled_back';
  });
  client.connection.prependListener('errorMessage', () => {
    hasFailed = true;
  });
  client.connection.prependListener('readyForQuery', (message) => {
    const before = status;
    status = statuses[message.status ?? 'I'] ?? 'none';
    // A COMMIT that the database refuses, for a deferred constraint or another transaction, has rolled back.
    if (hasFailed && before !== 'none' && status === 'none') ended ??= 'rolled_back';
    connection.answered(status, ended);
    ended = undefined;
    hasFailed = false;
  });
  client.on('end', () => {
    status = 'none';
    connection.isLost();
  });
  return {
    dialect: 'postgres',
    status: () => status,
    run: (statement) => run(client, query, statement, () => status),
  };
}

/** Not behind other statements: `pg` speaks of that as deprecated, and the status would be an old one. */
async function run(
  client: PgClient,
  query: Query,
  { text, values }: Statement,
  status: () => TransactionStatus,
): Promise<void> {
  if (client.readyForQuery === false) await drained(client);
  if (status() === 'none') throw new Error('the transaction is over');
  // Known only now: `pg` tells an error before it has heard where the connection stands.
  if (status() === 'doomed' && text !== 'ROLLBACK') return;
  await new Promise<void>((resolve, reject) => {
    const answered: Callback = (error) => (error ? reject(error) : resolve());
    Reflect.apply(query, client, [{ text, values }, undefined, answered]);
  });
}

function drained(client: PgClient): Promise<void> {
  return new Promise((resolve, reject) => {
    const onDrain = (): void => {
      client.removeListener('end', onEnd);
      resolve();
    };
    const onEnd = (): void => {
      client.removeListener('drain', onDrain);
      reject(new Error('the connection has ended'));
    };
    client.once('drain', onDrain);
    client.once('end', onEnd);
  });
}
