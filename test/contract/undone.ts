import assert from 'node:assert/strict';
import type { Storing } from '../../src/outbox/join.ts';
import {
  currentScope,
  endOfTransaction,
  runInScope,
  type Scope,
  type TransactionEnd,
} from '../../src/transaction/transaction.ts';
import { Captures } from './captured.ts';
import type { DriverUnderTest, TestConnection } from './driver.ts';

/** `not awaited`: the steps follow each other before the database has answered any of them. */
export const manners = ['awaited', 'not awaited'] as const;
export type Manner = (typeof manners)[number];

/** A captured function that runs as long as a play has it do so. Its event has its id. */
interface Running {
  readonly id: string;
  readonly outer: Running | undefined;
  readonly scope: Scope | undefined;
  readonly call: Promise<unknown>;
  readonly end: () => void;
  hasWritten: boolean;
  /** What an event that waits for the COMMIT, and is no row, would hear. */
  followed?: Promise<TransactionEnd> | undefined;
  hasEnded: boolean;
  /** Its event was made before, with a COMMIT of its own. */
  isTold?: boolean | undefined;
}

export interface Account {
  readonly name: string;
  readonly hasWritten: boolean;
  /** Of it and of the functions inside of it. */
  readonly hasRows: boolean;
  readonly hasEvent: boolean;
  readonly end: Awaited<Storing['outcome']> | 'refused' | undefined;
  /** Of an event without a row; `none`: it is sent when the function ends. */
  readonly followed: TransactionEnd | 'none' | 'told before';
  /** The code of what the call failed with. */
  readonly failure: unknown;
}

let played = 0;

/**
 * Plays steps on one connection, in order: `f begins`, `f begins g` (inside of it), `f ends`, `f writes`, `f: SAVEPOINT a` (sent by the
 * function), `BEGIN` (sent by nobody's function), `fails` (a statement that the database refuses).
 */
export async function play(
  driver: DriverUnderTest,
  connection: TestConnection,
  steps: readonly string[],
  manner: Manner,
): Promise<readonly Account[]> {
  const captures = new Captures();
  const prefix = `undone-${++played}`;
  const running = new Map<string, Running>();
  const rows: { readonly by: Running; readonly id: string }[] = [];
  const sent: Promise<unknown>[] = [];

  const send = (text: string): unknown => {
    try {
      return connection.run(text);
    } catch {
      return undefined;
    }
  };

  function begin(name: string, outer: Running | undefined): void {
    const id = `${prefix}-${name}`;
    let scope: Scope | undefined;
    const { promise, resolve: end } = Promise.withResolvers<void>();
    const call = captures.call(id, () => {
      scope = currentScope();
      return promise;
    });
    call.catch(() => {});
    running.set(name, { id, outer, scope, call, end, hasWritten: false, hasEnded: false });
  }

  function act(step: string): unknown {
    const [, name = '', verb = '', rest = ''] = /^(\w)(:| begins| ends| writes)\s*(.*)$/.exec(step) ?? [];
    const one = running.get(name);
    if (verb === ' begins') {
      if (rest === '') return begin(name, undefined);
      return runInScope(one?.scope, () => begin(rest, one));
    }
    if (one === undefined) return send(step === 'fails' ? 'INSERT INTO no_such_table (id) VALUES (1)' : step);
    if (verb === ' ends') {
      one.isTold = one.scope?.hasEvent;
      one.followed = endOfTransaction(one.scope);
      one.hasEnded = true;
      one.end();
      return one.call;
    }
    const inserted = `${one.id}-${rows.length}`;
    const text = verb === ' writes' ? `INSERT INTO orders (id) VALUES ('${inserted}')` : rest;
    if (text.includes('INSERT')) rows.push({ by: one, id: inserted });
    for (let each: Running | undefined = one; each !== undefined; each = each.outer)
      each.hasWritten ||= /insert/i.test(text);
    return runInScope(one.scope, () => send(text.replace('$row', `${inserted}`)));
  }

  for (const step of steps) {
    const done = act(step);
    if (done instanceof Promise) {
      done.catch(() => {});
      sent.push(done);
      if (manner === 'awaited') await Promise.allSettled([done]);
    }
    // What a function does at its end, it does before the database can answer.
    for (let ticks = 0; ticks < 10; ticks++) await undefined;
  }
  await Promise.allSettled(sent);
  const all = [...running].filter(([, one]) => one.hasEnded);
  await Promise.allSettled(all.map(([, { call }]) => call));
  const [orders, events] = [await driver.ids('orders'), await driver.ids('events')];
  const ends = await captures.ends();
  const isOf = (one: Running, other: Running | undefined): boolean =>
    other !== undefined && (one === other || isOf(one, other.outer));
  return Promise.all(
    all.map(async ([name, one]): Promise<Account> => {
      const failure = await one.call.then(
        () => undefined,
        (error: { code?: unknown }) => error.code ?? error,
      );
      return {
        name,
        hasWritten: one.hasWritten,
        hasRows: rows.some(({ by, id }) => isOf(one, by) && orders.includes(id)),
        hasEvent: events.includes(one.id),
        end: ends[one.id] as Account['end'],
        followed: one.isTold ? 'told before' : ((await one.followed) ?? 'none'),
        failure,
      };
    }),
  );
}

/** An event is there where a row of its function is, and is told as it is. */
export function assertTrue(
  { name, hasWritten, hasRows, hasEvent, end, followed, failure }: Account,
  steps: readonly string[],
): void {
  const told = `${name}: ${JSON.stringify({ hasRows, hasEvent, end, followed, failure })} of ${steps.join('; ')}`;
  assert.equal(end === 'outbox', hasEvent, told);
  if (!hasWritten) return;
  if (failure === 'SVC_OUTBOX_COMMITTED') assert.deepEqual([hasEvent, end], [false, 'refused'], told);
  else assert.equal(hasEvent, hasRows, told);
  if (followed === 'told before') return;
  if (hasEvent || hasRows) assert.notEqual(followed, 'rolled_back', told);
  else assert.equal(followed, 'rolled_back', told);
}

interface Case {
  readonly title: string;
  readonly steps: readonly string[];
  /** Of the functions, those that have an event in the end; where it depends on the driver, those whose rows are there. */
  readonly events?: string;
  /** The steps come to something else where nobody waits for their answers. */
  readonly isAwaited?: true;
  readonly needs?: 'chain';
}

const insert = "INSERT INTO orders (id) VALUES ('$row')";
const cases: readonly Case[] = [
  {
    title: 'what it wrote is undone before it ends',
    steps: ['BEGIN', 'SAVEPOINT a', 'f begins', 'f writes', 'ROLLBACK TO a', 'f ends', 'COMMIT'],
    events: '',
  },
  {
    title: 'it wrote before the savepoint as well',
    steps: ['BEGIN', 'f begins', 'f writes', 'SAVEPOINT a', 'f writes', 'ROLLBACK TO a', 'f ends', 'COMMIT'],
    events: 'f',
  },
  {
    title: 'it wrote before the savepoint, and ended before that was undone',
    steps: ['BEGIN', 'f begins', 'f writes', 'SAVEPOINT a', 'f ends', 'ROLLBACK TO a', 'COMMIT'],
    events: 'f',
  },
  {
    title: 'the same, twice',
    steps: [
      ...['BEGIN', 'f begins', 'f writes', 'SAVEPOINT a', 'f ends', 'ROLLBACK TO a', 'SAVEPOINT b'],
      ...['ROLLBACK TO a', 'COMMIT'],
    ],
    events: 'f',
  },
  {
    title: 'it wrote before the savepoint, ended behind a statement that failed, and that was undone',
    steps: ['BEGIN', 'f begins', 'f writes', 'SAVEPOINT a', 'fails', 'f ends', 'ROLLBACK TO a', 'COMMIT'],
    events: 'f',
  },
  {
    title: 'it began before the savepoint, and wrote behind it',
    steps: ['BEGIN', 'f begins', 'SAVEPOINT a', 'f writes', 'f ends', 'ROLLBACK TO a', 'COMMIT'],
    events: '',
  },
  {
    title: 'it wrote again',
    steps: ['BEGIN', 'SAVEPOINT a', 'f begins', 'f writes', 'ROLLBACK TO a', 'f writes', 'f ends', 'COMMIT'],
    events: 'f',
  },
  {
    title: 'it went back by itself, and wrote something else',
    steps: [
      'BEGIN',
      'f begins',
      'f: SAVEPOINT a',
      'f writes',
      'f: ROLLBACK TO a',
      'f writes',
      'f ends',
      'COMMIT',
    ],
    events: 'f',
  },
  {
    title: 'it went back by itself, and wrote nothing else',
    steps: ['BEGIN', 'f begins', 'f: SAVEPOINT a', 'f writes', 'f: ROLLBACK TO a', 'f ends', 'COMMIT'],
    events: '',
  },
  {
    title: 'the savepoint is released',
    steps: ['BEGIN', 'SAVEPOINT a', 'f begins', 'f writes', 'RELEASE SAVEPOINT a', 'f ends', 'COMMIT'],
    events: 'f',
  },
  {
    title: 'the savepoint is released, and the outer one is undone',
    steps: [
      ...['BEGIN', 'SAVEPOINT a', 'SAVEPOINT b', 'f begins', 'f writes', 'RELEASE SAVEPOINT b'],
      ...['ROLLBACK TO a', 'f ends', 'COMMIT'],
    ],
    events: '',
  },
  {
    title: 'the savepoint is undone, and released',
    steps: [
      ...['BEGIN', 'SAVEPOINT a', 'f begins', 'f writes', 'ROLLBACK TO a', 'RELEASE SAVEPOINT a'],
      ...['f ends', 'COMMIT'],
    ],
    events: '',
  },
  {
    title: 'of two savepoints with one name the last is undone',
    steps: [
      ...['BEGIN', 'SAVEPOINT a', 'f begins', 'f writes', 'SAVEPOINT a', 'g begins', 'g writes'],
      ...['ROLLBACK TO a', 'f ends', 'g ends', 'COMMIT'],
    ],
    events: 'f',
  },
  {
    title: 'savepoints one after the other, each undone',
    steps: [
      ...['BEGIN', 'SAVEPOINT a', 'f begins', 'f writes', 'ROLLBACK TO a', 'RELEASE SAVEPOINT a'],
      ...['SAVEPOINT a', 'f writes', 'ROLLBACK TO a', 'RELEASE SAVEPOINT a', 'f ends', 'COMMIT'],
    ],
    events: '',
  },
  {
    title: 'a function inside of it wrote',
    steps: [
      ...['BEGIN', 'f begins', 'SAVEPOINT a', 'f begins g', 'g writes', 'ROLLBACK TO a'],
      ...['g ends', 'f ends', 'COMMIT'],
    ],
    events: '',
  },
  {
    title: 'a function inside of it wrote, and it wrote before',
    steps: [
      ...['BEGIN', 'f begins', 'f writes', 'SAVEPOINT a', 'f begins g', 'g writes', 'ROLLBACK TO a'],
      ...['g ends', 'f ends', 'COMMIT'],
    ],
    events: 'f',
  },
  {
    title: 'they write nothing: one in what is undone, one before it, one after it',
    steps: [
      ...['BEGIN', 'g begins', 'SAVEPOINT a', 'f begins', 'ROLLBACK TO a', 'h begins'],
      ...['f ends', 'g ends', 'h ends', 'COMMIT'],
    ],
    events: 'g h',
  },
  {
    title: 'a function without writes around which all was undone',
    steps: [
      ...['BEGIN', 'f begins', 'SAVEPOINT a', 'f writes', 'f begins g', 'ROLLBACK TO a', 'f begins h'],
      ...['g ends', 'h ends', 'f ends', 'COMMIT'],
    ],
    events: 'h',
  },
  {
    title: 'a statement failed in the savepoint',
    steps: ['BEGIN', 'SAVEPOINT a', 'f begins', 'f writes', 'fails', 'ROLLBACK TO a', 'f ends', 'COMMIT'],
    events: '',
  },
  {
    title: 'the savepoint is not released for a statement that failed, and is undone',
    steps: [
      ...['BEGIN', 'SAVEPOINT b', 'SAVEPOINT a', 'f begins', 'f writes', 'fails', 'RELEASE SAVEPOINT a'],
      ...['ROLLBACK TO a', 'ROLLBACK TO b', 'f ends', 'COMMIT'],
    ],
    events: '',
  },
  {
    title: 'it is undone in the text that wrote it',
    steps: ['BEGIN', 'f begins', `f: SAVEPOINT a; ${insert}; ROLLBACK TO a`, 'f ends', 'COMMIT'],
    events: '',
  },
  {
    title: 'it wrote behind what its text undoes',
    steps: ['BEGIN', 'f begins', `f: SAVEPOINT a; ROLLBACK TO a; ${insert}`, 'f ends', 'COMMIT'],
    events: 'f',
  },
  {
    title: 'all is rolled back, and the next transaction begins',
    steps: ['BEGIN', 'f begins', 'f writes', 'ROLLBACK', 'BEGIN', 'f ends', 'COMMIT'],
    events: '',
  },
  {
    title: 'all is rolled back, and it writes in the next transaction',
    steps: ['BEGIN', 'f begins', 'f writes', 'ROLLBACK', 'BEGIN', 'f writes', 'f ends', 'COMMIT'],
    events: 'f',
    isAwaited: true,
  },
  {
    title: 'all is rolled back before it ends',
    steps: ['BEGIN', 'f begins', 'f writes', 'ROLLBACK', 'f ends'],
    events: '',
  },
  {
    title: 'all is rolled back with a chain',
    steps: ['BEGIN', 'f begins', 'f writes', 'ROLLBACK AND CHAIN', 'f ends', 'COMMIT'],
    events: '',
    needs: 'chain',
  },
  {
    title: 'it began and rolled back a transaction, and commits the next',
    steps: [
      ...['f begins', 'f: BEGIN', 'f writes', 'f: ROLLBACK', 'f: BEGIN', 'f writes', 'f: COMMIT', 'f ends'],
    ],
    events: 'f',
    isAwaited: true,
  },
  {
    title: 'it commits a transaction whose part with writes is undone, and the next',
    steps: [
      ...['f begins', 'f: BEGIN', 'f: SAVEPOINT a', 'f writes', 'f: ROLLBACK TO a', 'f: COMMIT'],
      ...['f: BEGIN', 'f writes', 'f: COMMIT', 'f ends'],
    ],
    events: 'f',
  },
  {
    title: 'it writes in a transaction behind one that went back to a savepoint, and rolled back',
    steps: [
      ...[
        'BEGIN',
        'SAVEPOINT a',
        'ROLLBACK TO a',
        'ROLLBACK',
        'BEGIN',
        'f begins',
        'f writes',
        'f ends',
        'COMMIT',
      ],
    ],
    events: 'f',
  },
  {
    title: 'it ends behind its COMMIT, which waits behind that of another transaction',
    steps: [
      ...['BEGIN', 'f begins', 'f writes', 'f ends', 'COMMIT', 'BEGIN', 'g begins', 'g writes', 'h begins'],
      ...['h writes', 'g ends', 'COMMIT', 'h ends'],
    ],
  },
  {
    title: 'it is committed before it ends',
    steps: ['BEGIN', 'f begins', 'f writes', 'COMMIT', 'f ends'],
    events: '',
  },
  {
    title: 'it is committed before it ends, and the next transaction begins',
    steps: ['BEGIN', 'f begins', 'f writes', 'COMMIT', 'BEGIN', 'f ends', 'COMMIT'],
    events: '',
  },
];

/** Whatever is undone has no event, and what stands has one. Call it inside a `describe`. */
export function testUndone(get: () => DriverUnderTest): void {
  let connection: TestConnection;
  beforeEach(async () => {
    connection = await get().connect();
  });
  afterEach(() => connection.close());

  for (const { title, steps, events, isAwaited, needs } of cases) {
    if (needs === 'chain' && get().chain === undefined) continue;
    for (const manner of get().isSync || isAwaited ? manners.slice(0, 1) : manners) {
      it(`${title}, ${manner}`, async () => {
        const accounts = await play(get(), connection, steps, manner);
        for (const account of accounts) assertTrue(account, steps);
        const told = accounts.filter(({ hasEvent }) => hasEvent).map(({ name }) => name);
        if (events !== undefined) assert.equal(told.sort().join(' '), events);
      });
    }
  }
}
