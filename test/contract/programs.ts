import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { startOwnWork } from '../../src/ground/lifecycle.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import type { Dialect } from '../../src/transaction/driver.ts';
import { writingViews as knownViews } from '../../src/transaction/statements.ts';
import { runInScope } from '../../src/transaction/transaction.ts';
import { Captures } from './captured.ts';
import type { DriverUnderTest, TestConnection } from './driver.ts';

/** What a database has for them beside the tables of a driver's suite. */
export interface ProgramParts {
  /** A query that writes an order, through a function of the database. */
  readonly callOf?: (id: string) => string;
  /** The same through a view, which calls that function: what it is to write, and the query. */
  readonly viewOf?: (id: string) => readonly [string, string];
  /** A statement after which the COMMIT is refused. */
  readonly dooms?: string;
  /** What a savepoint has undone stays locked, for other connections of the same function, too. */
  readonly locksUndone?: boolean;
}

const inTransaction = [
  'text',
  'call',
  'silent',
  'read',
  'undone',
  'in savepoint',
  'nested',
  'pair',
  'pause',
] as const;
const withOther = ['beside', 'both'] as const;
type StepKind = (typeof inTransaction)[number] | (typeof withOther)[number];
interface Activity {
  readonly kind: 'transaction' | 'owner' | 'reader' | 'alone' | 'beside a transaction' | 'in two';
  readonly commits: boolean;
  /** The first COMMIT is refused, and it tries again. */
  readonly isRefused: boolean;
  readonly steps: readonly StepKind[];
}

/** What has to be true of one function: its event is there where a row of it is; of one without rows the program says it. */
interface Expected {
  readonly id: string;
  readonly hasEvent: boolean | 'as its rows';
}

/**
 * Programs of an application, side by side on several connections: what stands has its event, and nothing else has. `PROGRAM_RUNS` says how
 * many; what fails is told with its seed, which `PROGRAM_SEED` repeats. Call it inside a `describe`.
 */
export function testPrograms(get: () => DriverUnderTest, parts: ProgramParts): void {
  it('programs of functions, savepoints and transactions have an event for each function that stands', async function () {
    const numRuns = Number(process.env.PROGRAM_RUNS ?? 25);
    const seed = process.env.PROGRAM_SEED;
    this.timeout(60_000 + numRuns * 500);
    const { isSync } = get();
    const connections = await Promise.all(Array.from({ length: isSync ? 1 : 6 }, () => get().connect()));
    const seen = { events: 0, none: 0, deadlocks: 0 };
    const kinds = isSync
      ? (['transaction', 'owner', 'reader'] as const)
      : (['transaction', 'owner', 'reader', 'alone', 'beside a transaction', 'in two'] as const);
    const activity = fc.record({
      kind: fc.constantFrom(...kinds),
      commits: fc.boolean(),
      isRefused: fc.boolean(),
      steps: fc.array(fc.constantFrom<StepKind>(...inTransaction, ...(isSync ? [] : withOther)), {
        maxLength: 6,
      }),
    });
    const program = fc.array(activity, { minLength: 1, maxLength: isSync ? 2 : 3 });
    let round = 0;
    const once = async (activities: readonly Activity[]): Promise<void> => {
      const run = new Run(get(), parts, `p${++round}`);
      const text = JSON.stringify(activities);
      const ended = runInScope(undefined, () => run.all(activities, connections));
      try {
        await within(30_000, text, ended);
      } catch (error) {
        // What stands then is a matter of the database alone: the program is not told of it.
        if ((error as { code?: unknown }).code !== 'ER_LOCK_DEADLOCK') throw error;
        seen.deadlocks++;
        for (const connection of connections) await startOwnWork(async () => connection.rollback());
        return;
      }
      for (const account of await run.accounts()) {
        assert.equal(account.hasEvent, account.expected, `${account.id}: ${text}`);
        seen[account.hasEvent ? 'events' : 'none']++;
      }
    };
    await fc.assert(fc.asyncProperty(program, once), {
      numRuns,
      ...(seed !== undefined && { seed: Number(seed) }),
    });
    for (const connection of connections) await connection.close();
    assert.ok(seen.events > 0 && seen.none > 0, 'what was to be tried was not');
    assert.ok(seen.deadlocks <= numRuns / 20, `${seen.deadlocks} deadlocks in ${numRuns} programs`);
  });
}

/** As svc does it at its start. */
export async function tellViews(dialect: Dialect, store: OutboxStore): Promise<void> {
  const { writingViews } = await startOwnWork(() => store.traits());
  knownViews.tell(dialect, writingViews);
  await store.close(1_000);
}

/** A failure that shows the program, and not a test that hangs. */
function within<T>(ms: number, program: string, work: Promise<T>): Promise<T> {
  const late = new Promise<never>((_, reject) => {
    setTimeout(reject, ms, new Error(`never ends: ${program}`)).unref();
  });
  return Promise.race([work, late]);
}

class Run {
  private readonly driver: DriverUnderTest;
  private readonly parts: ProgramParts;
  private readonly name: string;
  private readonly expected: Expected[] = [];
  /** Events that were stored by themselves. */
  private readonly storedAlone: string[] = [];
  private readonly captures = new Captures(async ({ eventId }) => void this.storedAlone.push(eventId));
  private count = 0;

  constructor(driver: DriverUnderTest, parts: ProgramParts, name: string) {
    this.driver = driver;
    this.parts = parts;
    this.name = name;
  }

  async all(activities: readonly Activity[], connections: readonly TestConnection[]): Promise<void> {
    const start = (one: Activity, index: number): Promise<void> => {
      const own = connections[index * 2] as TestConnection;
      return this.activity(one, own, connections[index * 2 + 1] ?? own);
    };
    if (!this.driver.isSync) {
      const ended = await Promise.allSettled(activities.map(start));
      for (const end of ended) if (end.status === 'rejected') throw end.reason;
    } else for (const one of activities) await start(one, 0);
  }

  async accounts(): Promise<readonly { id: string; hasEvent: boolean; expected: boolean }[]> {
    const [orders, stored] = [await this.driver.ids('orders'), await this.driver.ids('events')];
    const events = [...stored.filter((id) => id.startsWith(`${this.name}-`)), ...this.storedAlone];
    assert.equal(new Set(events).size, events.length, 'an event is there twice');
    const known = new Set(this.expected.map(({ id }) => id));
    for (const id of events) assert.ok(known.has(id), `${id} is of nothing`);
    return this.expected.map(({ id, hasEvent }) => ({
      id,
      hasEvent: events.includes(id),
      expected: hasEvent === 'as its rows' ? orders.some((row) => row.startsWith(`${id}.`)) : hasEvent,
    }));
  }

  private expect(hasEvent: Expected['hasEvent']): string {
    const id = `${this.name}-${++this.count}`;
    this.expected.push({ id, hasEvent });
    return id;
  }

  /** A row of a function, by an INSERT or a query. */
  private async write(connection: TestConnection, id: string, how: 'text' | 'call' = 'text'): Promise<void> {
    const row = `${id}.${++this.count}`;
    const { callOf, viewOf } = this.parts;
    // Each second one of them.
    if (how === 'call' && viewOf !== undefined && this.count % 2 === 0) {
      for (const text of viewOf(row)) await connection.run(text);
      return;
    }
    const call = how === 'call' ? callOf?.(row) : undefined;
    await connection.run(call ?? `INSERT INTO orders (id) VALUES ('${row}')`);
  }

  private async activity(one: Activity, own: TestConnection, other: TestConnection): Promise<void> {
    switch (one.kind) {
      case 'transaction':
        return this.transaction(one, own, other);
      case 'owner':
      case 'reader':
        return this.owner(one, own);
      case 'alone':
        return this.silent(true);
      case 'beside a transaction': {
        const transaction = this.transaction(one, own, other);
        for (const _ of one.steps) await turn();
        await this.silent(true);
        await transaction;
        return;
      }
      case 'in two': {
        await own.begin();
        await other.begin();
        const refused = this.captures.call(this.expect(false), () => turn());
        await assert.rejects(refused, { code: 'SVC_OUTBOX_SEVERAL_TRANSACTIONS' });
        await own.commit();
        await other.rollback();
      }
    }
  }

  private async transaction(one: Activity, own: TestConnection, other: TestConnection): Promise<void> {
    await own.begin();
    const locks =
      this.parts.locksUndone && one.steps.some((step) => step === 'undone' || step === 'in savepoint');
    for (const step of one.steps) await this.step(step, one.commits, own, locks ? own : other);
    await (one.commits ? own.commit() : own.rollback());
  }

  private async silent(hasEvent: boolean): Promise<void> {
    await this.captures.call(this.expect(hasEvent), async () => void (await turn()));
  }

  private async step(
    kind: StepKind,
    commits: boolean,
    own: TestConnection,
    other: TestConnection,
  ): Promise<void> {
    const call = (id: string, work: () => Promise<void>): Promise<void> => this.captures.call(id, work);
    switch (kind) {
      case 'text':
      case 'call': {
        const id = this.expect('as its rows');
        return call(id, () => this.write(own, id, kind));
      }
      case 'silent':
        return this.silent(commits);
      case 'read':
        return call(this.expect(commits), async () => void (await own.run('SELECT 1')));
      case 'undone': {
        const id = this.expect('as its rows');
        return call(id, async () => {
          await own.run('SAVEPOINT one');
          await this.write(own, id, 'call');
          await own.run('ROLLBACK TO SAVEPOINT one');
        });
      }
      case 'in savepoint':
        await own.run('SAVEPOINT two');
        await this.step('call', commits, own, other);
        await this.silent(false);
        await own.run('ROLLBACK TO SAVEPOINT two');
        return;
      case 'nested': {
        const id = this.expect('as its rows');
        return call(id, async () => {
          await this.write(own, id, 'call');
          await this.silent(commits);
        });
      }
      case 'pair':
        await Promise.all([this.step('text', commits, own, other), this.silent(commits)]);
        return;
      case 'beside': {
        const id = this.expect('as its rows');
        return call(id, () => this.write(other, id, 'call'));
      }
      case 'both': {
        const id = this.expect('as its rows');
        return call(id, async () => {
          await this.write(other, id);
          await this.write(own, id, 'call');
        });
      }
      case 'pause':
        await turn();
        // Who has waited for something else than the database is inside again with its next statement.
        await own.run('SELECT 1');
    }
  }

  /** A function that opens its own transaction, and tries again where its COMMIT is refused. */
  private async owner({ kind, commits, isRefused }: Activity, own: TestConnection): Promise<void> {
    const { dooms } = this.parts;
    const id = this.expect(kind === 'reader' ? true : 'as its rows');
    await this.captures.call(id, async () => {
      for (let attempt = 0; attempt < 2; attempt++) {
        await own.begin();
        if (kind === 'reader') await own.run('SELECT 1');
        else await this.write(own, id, 'call');
        if (!commits && kind !== 'reader') return void (await own.rollback());
        if (isRefused && attempt === 0 && dooms !== undefined) await startOwnWork(async () => own.run(dooms));
        try {
          await own.commit();
          return;
        } catch {
          await startOwnWork(async () => own.rollback());
        }
      }
    });
  }
}
