import { Duplex } from 'node:stream';
import { isOwnWork, runOwnWork } from '../../ground/lifecycle.ts';
import { assertShape } from '../../transaction/assert-shape.ts';
import type { Connections, DriverPatch } from '../../transaction/driver.ts';
import { patchMethod } from '../../transaction/patch-method.ts';
import { bindOnce, patchOnce } from '../../transaction/patch-once.ts';
import { inScopeOfCaller } from '../../transaction/scope.ts';
import { kindOf } from '../../transaction/statements.ts';
import {
  assertCommand,
  bindToCaller,
  type Callback,
  type Command,
  failCommand,
  hear,
  type Mysql2Connection,
  textOf,
} from './mysql2-command.ts';
import { lostError, Mysql2Session } from './mysql2-session.ts';

interface Pool {
  getConnection(callback: Callback): unknown;
  readonly _allConnections: { get(index: number): Mysql2Connection & { destroy(): void } };
}

interface Mysql2 {
  /** Not of `mysql2/promise`, whose classes hold one of these. */
  readonly Connection?: { readonly prototype: object };
  readonly Pool?: { readonly prototype: object };
  /** Of `mysql2/promise`: a pool that holds one. */
  createPool(options: object): Pool | { readonly pool: Pool };
}

/** Both have the same classes inside. */
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

/** `mysql2/promise` exports none of the classes that do the work: they are reached through a connection that leads nowhere. */
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

/** Whatever the application calls, it ends as a command in the queue of its connection: there a COMMIT can be held. */
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

/** Before these it must be known whether the transaction is still there. */
const gated: ReadonlySet<string> = new Set(['begin', 'commit', 'implicit commit', 'prepare']);
const resets: ReadonlySet<string> = new Set(['ChangeUser', 'ResetConnection']);

function onEnd(command: Command, listener: () => void): void {
  const { emit } = command;
  command.emit = (event, ...given): boolean => {
    if (event === 'end') listener();
    return Reflect.apply(emit, command, [event, ...given]);
  };
}

/** A connection may be handed out from where another one was given back. */
function patchPool(prototype: Pool): void {
  const original = prototype.getConnection;
  prototype.getConnection = function getConnection(this: Pool, callback) {
    return Reflect.apply(original, this, [inScopeOfCaller(callback)]);
  };
}
