import { assertShape } from '../../transaction/assert-shape.ts';
import { asCaller } from '../../transaction/scope.ts';
import type { StatementKind } from '../../transaction/statements.ts';

export type Callback = (error: unknown, ...results: unknown[]) => void;
type Start = (packet: unknown, connection: unknown) => unknown;

/** What is used of a command of `mysql2`, which waits in the queue of its connection and sends itself. */
export interface Command {
  /** Of Query and Execute. */
  readonly sql?: unknown;
  /** Of Execute of a statement that the application has prepared. */
  readonly statement?: { readonly query?: unknown };
  onResult?: Callback | undefined;
  /** When its turn has come. Returns `null` where nothing was sent. */
  start: Start;
  emit(event: string, ...args: unknown[]): boolean;
}

/** A connection of `mysql2`, 3.11 and later. */
export interface Mysql2Connection {
  readonly stream: { prependListener(event: 'close' | 'error', listener: () => void): void };
  readonly _closing?: boolean;
  readonly _handshakePacket?: { readonly statusFlags?: number; readonly serverVersion?: string } | null;
  addCommand(command: Command): Command;
  query(options: { readonly sql: string }, callback: Callback): unknown;
  execute(sql: string, values: readonly unknown[], callback: Callback): unknown;
}

/** Who hears what the database answers to a command. */
export interface Hearer {
  /** An OK or EOF packet with these flags, in answer to a statement of this kind. */
  heard(flags: number, kind: StatementKind): void;
  /** An ERR packet with this number, which has no flags. */
  heardError(errno: number, kind: StatementKind): void;
  /** An answer that tells of no flags where those of other versions do. */
  notUnderstood(error: unknown): void;
}

interface Hearing {
  readonly hearer: Hearer;
  /** Of all statements of its text. */
  readonly kinds: readonly StatementKind[];
  answered: number;
}

interface CommandMethods {
  doneInsert(result: { readonly serverStatus?: number } | null): unknown;
  row(packet: { isEOF(): boolean; eofStatusFlags(): number } | undefined, connection: unknown): unknown;
}

const hearings = new WeakMap<object, Hearing>();
const heardClasses = new WeakSet<object>();

/** `undefined` for what is no statement. Of a prepared one, its Execute counts. */
export function textOf({ sql, statement }: Command): string | undefined {
  const text = sql ?? statement?.query;
  return typeof text === 'string' ? text : undefined;
}

/** Throws where its answers could not be heard. */
export function assertCommand(command: Command): void {
  assertShape(command, ['start', 'emit', 'onResult', 'doneInsert', 'row']);
}

/** From now on its answers are heard, before the application hears of them. */
export function hear(command: Command, hearer: Hearer, kind: StatementKind): void {
  patchClass(Object.getPrototypeOf(command) as CommandMethods);
  hearings.set(command, { hearer, kinds: kind.all ?? [kind], answered: 0 });
  const { onResult } = command;
  if (onResult !== undefined)
    command.onResult = (...given): void => {
      tellError(command, given[0]);
      onResult(...given);
    };
}

/** Its callbacks and listeners are called from the socket, where no context leads back to the caller. */
export function bindToCaller(command: Command): void {
  const runAsCaller = asCaller();
  const { onResult, emit } = command;
  if (onResult !== undefined) command.onResult = (...given): void => runAsCaller(() => onResult(...given));
  const value: Command['emit'] = (event, ...given) => {
    if (event === 'error') tellError(command, given[0]);
    return runAsCaller(() => Reflect.apply(emit, command, [event, ...given]));
  };
  Object.defineProperty(command, 'emit', { value, writable: true, configurable: true, enumerable: false });
}

/** As `mysql2` fails a command, which is never sent. */
export function failCommand(command: Command, error: unknown): void {
  hearings.delete(command);
  if (command.onResult !== undefined) command.onResult(error);
  else command.emit('error', error);
  command.emit('end');
}

/** Of the database; the driver has errors of its own, such as a time limit, and the answer is still to come. */
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
    hearing.hearer.notUnderstood(new Error('its answers do not tell of transactions'));
    return;
  }
  const kind = kindNow(hearing);
  hearing.answered++;
  hearing.hearer.heard(flags, kind);
}
