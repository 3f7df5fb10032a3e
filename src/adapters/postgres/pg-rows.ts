import { crc32 } from 'node:zlib';
import type { Statement, TransactionStatus } from '../../transaction/driver.ts';

/** What is used of the connection of a client, as other packages on top of `pg` do. */
export interface PgWire {
  readonly stream: { readonly writable: boolean; write(bytes: Buffer): unknown };
  parse(message: { text: string; name?: string }): void;
  bind(message: { statement?: string; values?: readonly unknown[] }): void;
  /** Without a limit: all rows. */
  execute(message: object): void;
  close(message: { type: 'S'; name: string }): void;
  sync(): void;
}

/** What is known of one connection, for the statement that all rows share. */
export interface RowPreparation {
  /** Nothing stands between this process and its backend, so that what is prepared is there the next time. */
  isDirect: boolean | undefined;
  /** Names of what is prepared, by its text. */
  readonly names: Map<string, string>;
}

/** `row`: the database has refused one, and run nothing after it. `driver`: the database has said nothing. */
export type ErrorSource = 'row' | 'commit' | 'driver';

export interface RowBatch {
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
export interface Submitted {
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
export function submitRows(batch: RowBatch): Submitted {
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
