import { Duplex } from 'node:stream';
import { isOwnWork, runOwnWork } from '../../ground/lifecycle.ts';
import {
  type Connections,
  type DriverPatch,
  type DriverSession,
  type Statement,
  type TransactionEnd,
  TransactionOver,
  type TransactionStatus,
  type WatchedConnection,
} from '../../transaction/driver.ts';
import { assertShape, bindOnce, patchMethod, patchOnce } from '../../transaction/patch-method.ts';
import { kindOf, type StatementKind } from '../../transaction/statements.ts';
import { asCaller, inScopeOfCaller } from '../../transaction/transaction.ts';

interface Pool {
  getConnection(callback: Callback): unknown;
  readonly _allConnections: { get(index: number): Mysql2Connection & { destroy(): void } };
}

interface Mysql2 {
  /** Missing in `mysql2/promise`, whose classes wrap these. */
  readonly Connection?: { readonly prototype: object };
  readonly Pool?: { readonly prototype: object };
  /** `mysql2/promise` returns a wrapper. */
  createPool(options: object): Pool | { readonly pool: Pool };
}

/** Both use the same inner classes. */
export const mysql2Drivers: readonly DriverPatch[] = ['mysql2', 'mysql2/promise'].map((specifier) => ({
  specifier,
  patch(exports, connections) {
    const { pool, connection } = insides(exports);
    const methods = ownerOf(connection, 'addCommand') as Mysql2Connection;
    const pools = ownerOf(pool, 'getConnection') as Pool;
    patchOnce(methods, () => patchConnection(methods, connections));
    patchOnce(pools, () => patchPool(pools));
  },
  bindCallbacks(exports) {
    const { Connection, Pool } = exports as Mysql2;
    const isOutside = Connection !== undefined && Pool !== undefined && 'addCommand' in Connection.prototype;
    const { pool, connection } = isOutside
      ? {
          pool: Object.create(Pool.prototype) as object,
          connection: Object.create(Connection.prototype) as object,
        }
      : insides(exports);
    const methods = ownerOf(connection, 'addCommand') as Mysql2Connection;
    const pools = ownerOf(pool, 'getConnection') as Pool;
    bindOnce(methods, () => bindCommands(methods));
    bindOnce(pools, () => patchPool(pools));
  },
}));

/** `mysql2/promise` does not export the inner classes. They are found through a connection without a server. */
function insides(exports: unknown): { pool: Pool; connection: Mysql2Connection } {
  return runOwnWork(() => {
    assertShape(exports, ['createPool']);
    const stream = (): Duplex => new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
    const made = (exports as Mysql2).createPool({ stream, connectTimeout: 0 });
    const pool = 'pool' in made ? made.pool : made;
    assertShape(pool, ['getConnection', '_allConnections.get']);
    pool.getConnection(() => {});
    const connection = pool._allConnections.get(0);
    assertShape(connection, ['addCommand', 'query', 'execute', 'destroy', 'stream.prependListener']);
    const commands: Command[] = [];
    const addCommand = (command: Command): Command => {
      commands.push(command);
      return command;
    };
    Object.assign(connection, { addCommand });
    connection.query({ sql: 'DO 0' }, () => {});
    connection.execute('DO 0', [], () => {});
    const statements = commands.filter((command) => textOf(command) !== undefined);
    if (statements.length < 2) throw new Error('its commands have no text');
    for (const command of statements) assertCommand(command);
    connection.destroy();
    return { pool, connection };
  });
}

function ownerOf(instance: object, method: string): object {
  let owner = Object.getPrototypeOf(instance) as object;
  while (!Object.hasOwn(owner, method)) owner = Object.getPrototypeOf(owner) as object;
  return owner;
}

function bindCommands(prototype: Mysql2Connection): void {
  patchMethod(prototype, 'addCommand', (behind) => {
    return function addCommand(this: Mysql2Connection, command: Command): Command {
      if (!isOwnWork()) bindToCaller(command);
      return Reflect.apply(behind(), this, [command]);
    };
  });
}

/** Every call of the application becomes a command in the queue of its connection, where a COMMIT can be held back. */
function patchConnection(prototype: Mysql2Connection, connections: Connections): void {
  const original = prototype.addCommand;
  const sessions = new WeakMap<object, Mysql2Session>();
  let collected: Command[] | undefined;

  function collect(call: () => void): readonly Command[] {
    const commands: Command[] = [];
    collected = commands;
    try {
      call();
    } finally {
      collected = undefined;
    }
    return commands;
  }

  prototype.addCommand = function addCommand(this: Mysql2Connection, command) {
    if (collected !== undefined) {
      collected.push(command);
      return command;
    }
    const text = textOf(command);
    if (isOwnWork()) return Reflect.apply(original, this, [command]);
    if (text === undefined && !sessions.has(this)) {
      bindToCaller(command);
      return Reflect.apply(original, this, [command]);
    }
    const add = (one: Command): void => void Reflect.apply(original, this, [one]);
    const connection = connections.of(this, (made) => {
      const session = new Mysql2Session(this, made, add, collect);
      sessions.set(this, session);
      return session;
    });
    const session = sessions.get(this);
    if (connection === undefined || session === undefined) return Reflect.apply(original, this, [command]);
    let admission: Promise<void> | undefined;
    let send = (): void => add(command);
    if (text === undefined) {
      admission = connection.sendsNoText();
      if (resets.has(command.constructor.name)) onEnd(command, () => session.wasReset());
    } else {
      const kind = kindOf(text, session.dialect);
      hear(command, session, kind);
      if (command.onResult === undefined) onEnd(command, session.beginsStream());
      const isGated = connection.current !== undefined && gated.has(kind.is);
      if (isGated)
        send = (): void => {
          session.ask();
          add(command);
        };
      try {
        admission = connection.sends(text);
      } catch (error) {
        admission = Promise.reject(error);
      }
    }
    bindToCaller(command);
    if (admission === undefined) send();
    else
      admission.then(
        () => (this._closing ? failCommand(command, lostError()) : send()),
        (error) => failCommand(command, error),
      );
    return command;
  };
}

/** Before these, it must be known whether the transaction still exists. */
const gated: ReadonlySet<string> = new Set(['begin', 'commit', 'implicit commit', 'prepare']);
const resets: ReadonlySet<string> = new Set(['ChangeUser', 'ResetConnection']);

function onEnd(command: Command, listener: () => void): void {
  const { emit } = command;
  command.emit = (event, ...given): boolean => {
    if (event === 'end') listener();
    return Reflect.apply(emit, command, [event, ...given]);
  };
}

/** The pool may hand out a connection in the context of another caller, which has released it. */
function patchPool(prototype: Pool): void {
  const original = prototype.getConnection;
  prototype.getConnection = function getConnection(this: Pool, callback) {
    return Reflect.apply(original, this, [inScopeOfCaller(callback)]);
  };
}

type Callback = (error: unknown, ...results: unknown[]) => void;
type Start = (packet: unknown, connection: unknown) => unknown;

/** The part of a command of `mysql2` that svc uses. A command waits in the queue of its connection, and sends itself. */
interface Command {
  /** Of Query and Execute. */
  readonly sql?: unknown;
  /** Of Execute with a statement that the application has prepared. */
  readonly statement?: { readonly query?: unknown };
  onResult?: Callback | undefined;
  /** Called when the command is first in the queue. Returns `null` if it sent nothing. */
  start: Start;
  emit(event: string, ...args: unknown[]): boolean;
}

/** A connection of `mysql2`, 3.11 and later. */
interface Mysql2Connection {
  readonly stream: {
    readonly destroyed?: boolean;
    prependListener(event: 'close' | 'error', listener: () => void): void;
  };
  readonly _closing?: boolean;
  readonly _handshakePacket?: { readonly statusFlags?: number; readonly serverVersion?: string } | null;
  addCommand(command: Command): Command;
  query(options: { readonly sql: string }, callback: Callback): unknown;
  execute(sql: string, values: readonly unknown[], callback: Callback): unknown;
}

interface Hearing {
  readonly hearer: Mysql2Session;
  /** Of all statements in its text. */
  readonly kinds: readonly StatementKind[];
  answered: number;
}

interface CommandMethods {
  doneInsert(result: { readonly serverStatus?: number } | null): unknown;
  row(packet: { isEOF(): boolean; eofStatusFlags(): number } | undefined, connection: unknown): unknown;
}

const hearings = new WeakMap<object, Hearing>();
const heardClasses = new WeakSet<object>();

/** `undefined` if it is not a statement. Of a prepared statement, its Execute counts. */
function textOf({ sql, statement }: Command): string | undefined {
  const text = sql ?? statement?.query;
  return typeof text === 'string' ? text : undefined;
}

/** Throws if its answers cannot be observed. */
function assertCommand(command: Command): void {
  assertShape(command, ['start', 'emit', 'onResult', 'doneInsert', 'row']);
}

/** Observes its answers from now on, before the application gets them. */
function hear(command: Command, hearer: Mysql2Session, kind: StatementKind): void {
  patchClass(Object.getPrototypeOf(command) as CommandMethods);
  hearings.set(command, { hearer, kinds: kind.all ?? [kind], answered: 0 });
  const { onResult } = command;
  if (onResult !== undefined)
    command.onResult = (...given): void => {
      tellError(command, given[0]);
      onResult(...given);
    };
}

/** Callbacks and listeners are called from the socket, without the context of the caller. */
function bindToCaller(command: Command): void {
  const runAsCaller = asCaller();
  const { onResult, emit } = command;
  if (onResult !== undefined) command.onResult = (...given): void => runAsCaller(() => onResult(...given));
  const value: Command['emit'] = (event, ...given) => {
    if (event === 'error') tellError(command, given[0]);
    return runAsCaller(() => Reflect.apply(emit, command, [event, ...given]));
  };
  Object.defineProperty(command, 'emit', { value, writable: true, configurable: true, enumerable: false });
}

/** Fails a command as `mysql2` does, without sending it. */
function failCommand(command: Command, error: unknown): void {
  hearings.delete(command);
  if (command.onResult !== undefined) command.onResult(error);
  else command.emit('error', error);
  command.emit('end');
}

/** Passes on errors of the database only. After an error of the driver, such as a time-out, the answer is still to come. */
function tellError(command: Command, error: unknown): void {
  const hearing = hearings.get(command);
  const { errno, sqlState } = (error ?? {}) as { readonly errno?: unknown; readonly sqlState?: unknown };
  if (hearing === undefined || typeof errno !== 'number' || typeof sqlState !== 'string') return;
  hearing.hearer.heardError(errno, kindNow(hearing));
}

function kindNow({ kinds, answered }: Hearing): StatementKind {
  return kinds[answered] ?? (kinds.at(-1) as StatementKind);
}

function patchClass(methods: CommandMethods): void {
  if (heardClasses.has(methods)) return;
  assertShape(methods, ['doneInsert', 'row']);
  heardClasses.add(methods);
  const { doneInsert, row } = methods;
  methods.doneInsert = function (this: object, result) {
    if (result) heardFlags(this, () => result.serverStatus);
    return Reflect.apply(doneInsert, this, [result]);
  };
  methods.row = function (this: object, packet, connection) {
    const canTell = typeof packet?.isEOF === 'function' && typeof packet.eofStatusFlags === 'function';
    if (!canTell || packet.isEOF()) heardFlags(this, () => (canTell ? packet.eofStatusFlags() : undefined));
    return Reflect.apply(row, this, [packet, connection]);
  };
}

function heardFlags(command: object, read: () => number | undefined): void {
  const hearing = hearings.get(command);
  if (hearing === undefined) return;
  const flags = read();
  if (typeof flags !== 'number') {
    hearings.delete(command);
    hearing.hearer.notUnderstood(new Error('its responses do not report transactions'));
    return;
  }
  const kind = kindNow(hearing);
  hearing.answered++;
  hearing.hearer.heard(flags, kind);
}

const inTransaction = 1;
const autocommit = 2;

/** Errors that roll the whole transaction back: a deadlock, too many locks, a changed row (MariaDB), XA's own. */
const endings: ReadonlySet<number> = new Set([1213, 1206, 1020, 1614]);
/** A lock wait time-out, which ends the transaction with `innodb_rollback_on_timeout`. */
const lockTimeout = 1205;

/** Adds a command to the driver's queue, past svc's own patch. */
type Add = (command: Command) => void;
type Collect = (call: () => void) => readonly Command[];

class Mysql2Session implements DriverSession {
  readonly dialect = 'mysql';
  private readonly handle: Mysql2Connection;
  private readonly connection: WatchedConnection;
  private readonly add: Add;
  private readonly collect: Collect;
  /** Of the last answer with flags. */
  private flags: number;
  /** An ERR packet has no flags: a deadlock ends the transaction, a refused row does not. */
  private isUncertain = false;
  private endByError: TransactionEnd = 'rolled_back';
  /** MariaDB: after a deadlock, the next query begins a transaction again, as after BEGIN. */
  private beginsAgain = false;
  /** Of svc's own statements. The driver does not notify them when a connection is destroyed. */
  private readonly unanswered = new Set<(error: unknown) => void>();
  /** Queries whose rows the application reads as a stream. */
  private streams = 0;

  constructor(handle: Mysql2Connection, connection: WatchedConnection, add: Add, collect: Collect) {
    assertShape(handle, ['query', 'execute', 'stream.prependListener']);
    this.handle = handle;
    this.connection = connection;
    this.add = add;
    this.collect = collect;
    this.flags = handle._handshakePacket?.statusFlags ?? autocommit;
    // Before the driver's own listeners, which call the application back.
    for (const event of ['close', 'error'] as const)
      handle.stream.prependListener(event, () => {
        this.flags &= ~inTransaction;
        connection.isLost();
        for (const reject of this.unanswered) reject(lostError());
      });
  }

  status(): TransactionStatus {
    return this.isOpen ? 'open' : 'none';
  }

  isBusy(): boolean {
    return this.streams > 0;
  }

  beginsStream(): () => void {
    this.streams++;
    return () => void this.streams--;
  }

  beginsByItself(): boolean {
    return (this.flags & autocommit) === 0 || this.beginsAgain;
  }

  /** An OK or EOF packet with these flags, in answer to a statement of this kind. */
  heard(flags: number, kind: StatementKind): void {
    const isOpen = (flags & inTransaction) !== 0;
    const ended = this.endBy(kind, isOpen);
    this.flags = flags;
    this.isUncertain = false;
    if (isOpen || !isQuery(kind)) this.beginsAgain = false;
    this.connection.answered(this.status(), ended);
  }

  /** An ERR packet with this number. It has no flags. */
  heardError(errno: number, { is }: StatementKind): void {
    if (this.isOpen && endings.has(errno)) {
      this.flags &= ~inTransaction;
      this.beginsAgain = /mariadb/i.test(this.handle._handshakePacket?.serverVersion ?? '');
      this.connection.answered('none', 'rolled_back');
      return;
    }
    // The implicit commit came before the failed statement.
    if (!this.isUncertain) this.endByError = is === 'implicit commit' ? 'committed' : 'rolled_back';
    this.isUncertain = true;
    if (errno === lockTimeout) this.ask();
  }

  /** An answer without flags, unlike in the versions that svc knows. */
  notUnderstood(error: unknown): void {
    this.connection.isNotUnderstood(error);
  }

  /** COM_CHANGE_USER and COM_RESET_CONNECTION roll back. */
  wasReset(): void {
    this.flags = autocommit;
    this.beginsAgain = false;
    this.isUncertain = true;
    this.connection.answered('none', 'rolled_back');
  }

  run({ text, values }: Statement, isStillOpen = () => true): Promise<void> {
    if (this.handle.stream.destroyed) return Promise.reject(new TransactionOver());
    const isRollback = text === 'ROLLBACK';
    return new Promise((resolve, reject) => {
      const done = (error: unknown): void => {
        this.unanswered.delete(reject);
        if (error) reject(error);
        else resolve();
      };
      this.unanswered.add(reject);
      const { handle } = this;
      const commands = this.collect(() => {
        if (isRollback) handle.query({ sql: text }, done);
        else handle.execute(text, values, done);
      });
      const last = commands.at(-1);
      if (last === undefined) return;
      hear(last, this, kindOf(text, this.dialect));
      if (!isRollback) {
        this.ask();
        onlyInTransaction(
          last,
          () => isStillOpen() && !this.isUncertain && (this.isOpen || this.beginsByItself()),
        );
      }
      for (const command of commands) this.add(command);
    });
  }

  /** Queues a statement that does nothing, for the flags of its answer. Skipped if the previous answer was not an error. */
  ask(): void {
    const [question] = this.collect(() => this.handle.query({ sql: 'DO 0' }, () => {}));
    if (question === undefined) return;
    hear(question, this, { is: 'read' });
    const { start } = question;
    question.start = (...given) => (this.isUncertain ? Reflect.apply(start, question, given) : null);
    this.add(question);
  }

  private get isOpen(): boolean {
    return (this.flags & inTransaction) !== 0;
  }

  private endBy({ is }: StatementKind, isOpen: boolean): TransactionEnd | undefined {
    if (isOpen) {
      if (is === 'begin') return this.isOpen ? 'committed' : undefined;
      if (is === 'commit') return 'committed';
      return is === 'rollback' ? 'rolled_back' : undefined;
    }
    if (is === 'rollback') return 'rolled_back';
    if (this.isOpen && this.isUncertain) return is === 'commit' ? 'unknown' : this.endByError;
    if (is === 'prepare') return 'unknown';
    return this.isOpen || is === 'commit' || is === 'implicit commit' ? 'committed' : undefined;
  }
}

function isQuery({ is }: StatementKind): boolean {
  return is === 'read' || is === 'write';
}

/** As in `mysql2`. */
function lostError(): Error {
  const error = new Error('the connection was lost');
  return Object.assign(error, { fatal: true, code: 'PROTOCOL_CONNECTION_LOST' });
}

/**
 * Outside a transaction, the row would be visible at once, whatever the outcome of the call. The check runs when the command is
 * first in the queue, after all earlier answers.
 */
function onlyInTransaction(command: Command, isIn: () => boolean): void {
  const { start } = command;
  command.start = (...given) => {
    if (isIn()) return Reflect.apply(start, command, given);
    failCommand(command, new TransactionOver());
    return null;
  };
}
