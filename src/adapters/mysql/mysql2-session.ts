import { assertShape } from '../../transaction/assert-shape.ts';
import {
  type DriverSession,
  type Statement,
  type TransactionEnd,
  TransactionOver,
  type TransactionStatus,
  type WatchedConnection,
} from '../../transaction/driver.ts';
import { kindOf, type StatementKind } from '../../transaction/statements.ts';
import { type Command, failCommand, type Hearer, hear, type Mysql2Connection } from './mysql2-command.ts';

const inTransaction = 1;
const autocommit = 2;

/** Errors with which the whole transaction is rolled back: a deadlock, too many locks, a row that has changed (MariaDB), XA's own. */
const endings: ReadonlySet<number> = new Set([1213, 1206, 1020, 1614]);
/** A lock that was waited for in vain: the transaction goes with `innodb_rollback_on_timeout`. */
const lockTimeout = 1205;

/** Adds a command to the driver's queue, past svc's own patch. */
export type Add = (command: Command) => void;
/** The commands that a call would have added. */
export type Collect = (call: () => void) => readonly Command[];

/** What a connection of `mysql2` is for svc. */
export class Mysql2Session implements DriverSession, Hearer {
  readonly dialect = 'mysql';
  private readonly handle: Mysql2Connection;
  private readonly connection: WatchedConnection;
  private readonly add: Add;
  private readonly collect: Collect;
  /** Of the last answer that had them. */
  private flags: number;
  /** An ERR packet has none: a deadlock ends the transaction, a refused row does not. */
  private isUncertain = false;
  private endByError: TransactionEnd = 'rolled_back';
  /** MariaDB: after a deadlock the next query is in a transaction again, as if BEGIN had been sent. */
  private beginsAgain = false;
  /** Of statements of svc. A connection that is destroyed tells those who wait nothing. */
  private readonly unanswered = new Set<(error: unknown) => void>();
  /** Queries whose rows the application reads as they come. */
  private streams = 0;

  constructor(handle: Mysql2Connection, connection: WatchedConnection, add: Add, collect: Collect) {
    assertShape(handle, ['query', 'execute', 'stream.prependListener']);
    this.handle = handle;
    this.connection = connection;
    this.add = add;
    this.collect = collect;
    this.flags = handle._handshakePacket?.statusFlags ?? autocommit;
    // Before the driver's own listeners: they call the application back.
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

  /** Returns what to call at its end. */
  beginsStream(): () => void {
    this.streams++;
    return () => void this.streams--;
  }

  beginsByItself(): boolean {
    return (this.flags & autocommit) === 0 || this.beginsAgain;
  }

  heard(flags: number, kind: StatementKind): void {
    const isOpen = (flags & inTransaction) !== 0;
    const ended = this.endBy(kind, isOpen);
    this.flags = flags;
    this.isUncertain = false;
    if (isOpen || !isQuery(kind)) this.beginsAgain = false;
    this.connection.answered(this.status(), ended);
  }

  heardError(errno: number, { is }: StatementKind): void {
    if (this.isOpen && endings.has(errno)) {
      this.flags &= ~inTransaction;
      this.beginsAgain = /mariadb/i.test(this.handle._handshakePacket?.serverVersion ?? '');
      this.connection.answered('none', 'rolled_back');
      return;
    }
    // The commit was before the statement that has failed.
    if (!this.isUncertain) this.endByError = is === 'implicit commit' ? 'committed' : 'rolled_back';
    this.isUncertain = true;
    if (errno === lockTimeout) this.ask();
  }

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

  /**
   * Nothing is sent where the last answer was no error, once the turn has come; else a statement that does nothing, for the flags of
   * its answer.
   */
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

/** As `mysql2` has it. */
export function lostError(): Error {
  const error = new Error('the connection was lost');
  return Object.assign(error, { fatal: true, code: 'PROTOCOL_CONNECTION_LOST' });
}

/**
 * Outside a transaction the row would be there at once, whatever becomes of the call. It is looked at when its turn has come: what
 * the application has sent before is answered by then.
 */
function onlyInTransaction(command: Command, isIn: () => boolean): void {
  const { start } = command;
  command.start = (...given) => {
    if (isIn()) return Reflect.apply(start, command, given);
    failCommand(command, new TransactionOver());
    return null;
  };
}
