import assert from 'node:assert/strict';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { startOwnWork } from '../../src/ground/lifecycle.ts';
import { until } from '../support/until.ts';
import { alarms, Captures } from './captured.ts';

/** One connection of an application, in the style of its driver: a synchronous one returns no promises. */
export interface TestConnection {
  begin(): unknown;
  commit(): unknown;
  rollback(): unknown;
  run(text: string): unknown;
  /** In the style of callbacks, where the driver has it. */
  callback?(text: string, done: (error: unknown) => void): void;
  close(): unknown;
  /** Where there is a server: its id of the connection. */
  id?(): number | null;
  /** Closes the socket, where there is one. */
  cutOff?(): void;
}

/** What a suite needs to know of a driver. It has empty tables `orders` and `events`, with a text `id` as their key. */
export interface DriverUnderTest {
  readonly isSync: boolean;
  /** A row goes with the application's next statement, which is the one that fails where it is not taken. */
  readonly holdsRows: boolean;
  /** Several of them can be in transactions side by side. */
  connect(): Promise<TestConnection>;
  /** Ends the connection of this id, where there is a server. */
  kill?(id: number): unknown;
  /** Of all rows that are committed, read over a connection that svc does not see. */
  ids(table: 'orders' | 'events'): Promise<readonly string[]>;
  readonly spellings: {
    readonly begin: readonly string[];
    readonly commit: readonly string[];
    readonly rollback: readonly string[];
  };
  /** COMMIT that begins the next one; the driver may have none. */
  readonly chain?: string;
  /** Its connections have `callback`. */
  readonly hasCallbacks: boolean;
}

type Step = () => unknown;

/** One step after the other: without waiting where the driver does not. */
function inTurn(...steps: readonly Step[]): unknown {
  let index = 0;
  const next = (): unknown => {
    while (index < steps.length) {
      const result = (steps[index++] as Step)();
      if (result instanceof Promise) return result.then(next);
    }
    return undefined;
  };
  return next();
}

/** The same, where what is thrown at once is a rejection. */
async function doing(...steps: readonly Step[]): Promise<void> {
  await inTurn(...steps);
}

let sequence = 0;
const newId = (): string => `id-${++sequence}`;

/** What must never happen, and what must, for any driver. Call it inside a `describe`. */
export function testDriver(get: () => DriverUnderTest): void {
  const traits = get();
  const opened: TestConnection[] = [];
  let captures: Captures;
  let alarmsBefore: number;

  const connect = async (): Promise<TestConnection> => {
    const connection = await get().connect();
    opened.push(connection);
    return connection;
  };
  const order = (connection: TestConnection, id: string): unknown =>
    connection.run(`INSERT INTO orders (id) VALUES ('${id}')`);
  /** A function of the application that writes an order, and whose event has its id. */
  const write = (connection: TestConnection, id: string): unknown =>
    captures.call(id, () => inTurn(() => order(connection, id)));
  const isThere = async (id: string, table: 'orders' | 'events'): Promise<boolean> =>
    (await get().ids(table)).includes(id);
  const holds = async (orders: Record<string, boolean>, events: Record<string, boolean>): Promise<void> => {
    const [allOrders, allEvents] = [await get().ids('orders'), await get().ids('events')];
    const seen = (all: readonly string[], asked: object) =>
      Object.fromEntries(Object.keys(asked).map((id) => [id, all.includes(id)]));
    assert.deepEqual(
      { orders: seen(allOrders, orders), events: seen(allEvents, events) },
      { orders, events },
    );
  };

  /** The same, where the table does not take the row. */
  async function writeRefused(connection: TestConnection, taken: string): Promise<void> {
    const call = doing(() => write(connection, taken));
    await (traits.holdsRows ? call : assert.rejects(call, { code: 'SVC_OUTBOX_INSERT' }));
  }

  const orderBeforeSavepoint = (connection: TestConnection, id: string): Promise<void> =>
    doing(
      () => connection.begin(),
      () => order(connection, id),
      () => connection.run('SAVEPOINT before_it'),
    );

  /** An event whose row the table does not take: there is one of its name. */
  async function takenId(connection: TestConnection): Promise<string> {
    const id = newId();
    await doing(() => connection.run(`INSERT INTO events (id) VALUES ('${id}')`));
    return id;
  }

  beforeEach(() => {
    captures = new Captures();
    alarmsBefore = alarms.ungated;
  });

  afterEach(async () => {
    for (const connection of opened.splice(0)) await connection.close();
    // Whatever a test was about: an event is told as stored where its row is, and nowhere else.
    const events = await get().ids('events');
    for (const [id, end] of Object.entries(await captures.ends()))
      if (end === 'outbox') assert.ok(events.includes(id), `${id} is told as stored and is not there`);
    assert.equal(alarms.ungated, alarmsBefore, 'a COMMIT was not seen coming');
  });

  it('an event is there with the commit, and not before', async () => {
    const [connection, id] = [await connect(), newId()];
    await doing(
      () => connection.begin(),
      () => write(connection, id),
    );
    assert.equal(await isThere(id, 'events'), false);
    await doing(() => connection.commit());
    await holds({ [id]: true }, { [id]: true });
    assert.deepEqual(await captures.ends(), { [id]: 'outbox' });
  });

  const losses: [string, (connection: TestConnection) => unknown][] = [
    ['cut off', (connection) => connection.cutOff?.()],
    ['ended by the server', (connection) => get().kill?.(connection.id?.() ?? 0)],
  ];
  for (const [how, lose] of traits.isSync ? [] : losses)
    it(`a connection that is ${how} while its row waits for the tables: the call returns, its COMMIT fails, and nothing is stored`, async () => {
      const [connection, id] = [await connect(), newId()];
      const tables = Promise.withResolvers<void>();
      let isWaiting = false;
      captures = new Captures(undefined, () => {
        isWaiting = true;
        return tables.promise;
      });
      await connection.begin();
      const called = doing(() => write(connection, id));
      await until(() => isWaiting);
      opened.splice(0);
      const committed = assert.rejects(doing(() => connection.commit()));
      await lose(connection);
      await sleep(50);
      tables.resolve();
      await Promise.all([called, committed]);
      await holds({ [id]: false }, { [id]: false });
      assert.deepEqual(await captures.ends(), { [id]: 'rolled_back' });
    });

  it('an event goes with the transaction that is rolled back after it', async () => {
    const [connection, id] = [await connect(), newId()];
    await doing(
      () => connection.begin(),
      () => write(connection, id),
      () => connection.rollback(),
    );
    await holds({ [id]: false }, { [id]: false });
    assert.deepEqual(await captures.ends(), { [id]: 'rolled_back' });
  });

  it('an event goes with the savepoint that is rolled back, and the others stay', async () => {
    const [connection, before, inside, after] = [await connect(), newId(), newId(), newId()];
    await doing(
      () => connection.begin(),
      () => write(connection, before),
      () => connection.run('SAVEPOINT one'),
      () => write(connection, inside),
      () => connection.run('ROLLBACK TO one'),
      () => write(connection, after),
      () => connection.run('RELEASE SAVEPOINT one'),
      () => connection.commit(),
    );
    const [rows, ends] = [{ [before]: true, [inside]: false, [after]: true }, await captures.ends()];
    await holds(rows, rows);
    assert.deepEqual(ends, { [before]: 'outbox', [inside]: 'rolled_back', [after]: 'outbox' });
  });

  it('functions in functions each have their event in the one transaction', async () => {
    const [connection, outer, inner] = [await connect(), newId(), newId()];
    const run = (end: Step): Promise<void> =>
      doing(
        () => connection.begin(),
        () =>
          captures.call(outer, () =>
            inTurn(
              () => order(connection, outer),
              () => write(connection, inner),
            ),
          ),
        end,
      );
    await run(() => connection.rollback());
    await holds({ [outer]: false, [inner]: false }, { [outer]: false, [inner]: false });
    captures = new Captures();
    await run(() => connection.commit());
    await holds({ [outer]: true, [inner]: true }, { [outer]: true, [inner]: true });
  });

  it('transactions side by side each have their own events', async () => {
    const all = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => ({ id: newId(), index, connection: await connect() })),
    );
    await captures.call('ignored', () => Promise.resolve()).catch(() => {});
    await Promise.all(
      all.map(async ({ id, index, connection }) => {
        await connection.begin();
        await turn();
        await write(connection, id);
        await turn();
        await (index % 2 === 0 ? connection.commit() : connection.rollback());
      }),
    );
    const rows = Object.fromEntries(all.map(({ id, index }) => [id, index % 2 === 0]));
    await holds(rows, rows);
  });

  it('an event outside any transaction is an error', async () => {
    const [connection, id] = [await connect(), newId()];
    await assert.rejects(
      doing(() => write(connection, id)),
      { code: 'SVC_OUTBOX_NO_TRANSACTION' },
    );
    await holds({ [id]: true }, { [id]: false });
  });

  it('an event after a transaction that is over is an error', async () => {
    const [connection, first, id] = [await connect(), newId(), newId()];
    await doing(
      () => connection.begin(),
      () => order(connection, first),
      () => connection.commit(),
    );
    await assert.rejects(
      doing(() => write(connection, id)),
      { code: 'SVC_OUTBOX_NO_TRANSACTION' },
    );
    await holds({ [first]: true, [id]: true }, { [id]: false });
  });

  it('a function that begins and commits has its event in its own transaction', async () => {
    const [connection, id] = [await connect(), newId()];
    await doing(() =>
      captures.call(id, () =>
        inTurn(
          () => connection.begin(),
          () => order(connection, id),
          () => connection.commit(),
        ),
      ),
    );
    await holds({ [id]: true }, { [id]: true });
    assert.deepEqual(await captures.ends(), { [id]: 'outbox' });
  });

  it('a function that begins and commits does so for nothing where its event is not taken', async () => {
    const [connection, id] = [await connect(), newId()];
    const taken = await takenId(connection);
    let commit = 'not called';
    const failed = assert.rejects(
      doing(() =>
        captures.call(taken, () =>
          inTurn(
            () => connection.begin(),
            () => order(connection, id),
            () => {
              commit = 'called';
              return connection.commit();
            },
            () => {
              commit = 'done';
            },
          ),
        ),
      ),
    );
    await failed;
    assert.equal(commit, 'called');
    await holds({ [id]: false }, { [taken]: true });
    // The connection is as good as before.
    await doing(
      () => connection.begin(),
      () => write(connection, id),
      () => connection.commit(),
    );
    await holds({ [id]: true }, { [id]: true });
  });

  it('a function whose COMMIT came to nothing has its event with the next one', async () => {
    const [connection, first, second] = [await connect(), newId(), newId()];
    const taken = await takenId(connection);
    const free = (): unknown =>
      startOwnWork(async () => connection.run(`DELETE FROM events WHERE id = '${taken}'`));
    const attempt = (id: string): Promise<void> =>
      doing(
        () => connection.begin(),
        () => order(connection, id),
        () => connection.commit(),
      );
    await captures.call(taken, async () => {
      await assert.rejects(attempt(first), { code: 'SVC_OUTBOX_INSERT' });
      await free();
      await attempt(second);
    });
    await holds({ [first]: false, [second]: true }, { [taken]: true });
    assert.deepEqual(await captures.ends(), { [taken]: 'outbox' });
  });

  it('a function that sends nothing by itself has its event in the transaction around it', async () => {
    const [connection, id, other] = [await connect(), newId(), newId()];
    await doing(
      () => connection.begin(),
      () => order(connection, other),
      () => captures.call(id, () => inTurn()),
      () => connection.rollback(),
    );
    await holds({ [other]: false }, { [id]: false });
    captures = new Captures();
    await doing(
      () => connection.begin(),
      () => order(connection, other),
      () => captures.call(id, () => Promise.resolve(1)),
      () => connection.commit(),
    );
    await holds({ [other]: true }, { [id]: true });
  });

  it('a write beside an open transaction does not have its event in that one', async () => {
    const [inside, beside, first, id] = [await connect(), await connect(), newId(), newId()];
    await doing(
      () => inside.begin(),
      () => order(inside, first),
    );
    await assert.rejects(
      doing(() => write(beside, id)),
      { code: 'SVC_OUTBOX_NO_TRANSACTION' },
    );
    await doing(() => inside.rollback());
    await holds({ [first]: false, [id]: true }, { [id]: false });
  });

  it('writes in two open transactions: nothing says which is that of the event', async () => {
    const [one, two, id, other] = [await connect(), await connect(), newId(), newId()];
    await doing(
      () => one.begin(),
      () => two.begin(),
    );
    await assert.rejects(
      doing(() =>
        captures.call(id, () =>
          inTurn(
            () => order(one, id),
            () => order(two, other),
          ),
        ),
      ),
      { code: 'SVC_OUTBOX_SEVERAL_TRANSACTIONS' },
    );
    // It belongs to one of them, so neither may commit without it.
    await assert.rejects(doing(() => one.commit()));
    await assert.rejects(doing(() => two.commit()));
    await holds({ [id]: false, [other]: false }, { [id]: false });
  });

  it('an event that is not taken fails the commit, though the application went on', async () => {
    const [connection, id] = [await connect(), newId()];
    const taken = await takenId(connection);
    await doing(
      () => connection.begin(),
      () => order(connection, id),
    );
    await writeRefused(connection, taken);
    await assert.rejects(doing(() => connection.commit()));
    await holds({ [id]: false, [taken]: false }, { [taken]: true });
  });

  it('an event that is not taken is forgiven by a rollback to a savepoint from before its function', async () => {
    const [connection, id] = [await connect(), newId()];
    const taken = await takenId(connection);
    await orderBeforeSavepoint(connection, id);
    await writeRefused(connection, taken);
    await doing(
      () => connection.run('ROLLBACK TO SAVEPOINT before_it'),
      () => connection.commit(),
    );
    await holds({ [id]: true, [taken]: false }, { [taken]: true });
  });

  it('an event that is not taken is forgiven, though the rollback to the savepoint did not wait for it', async () => {
    const [connection, id] = [await connect(), newId()];
    const taken = await takenId(connection);
    await orderBeforeSavepoint(connection, id);
    const call = doing(() => captures.call(taken, () => {})).catch(() => {});
    await doing(
      () => connection.run('ROLLBACK TO SAVEPOINT before_it'),
      () => connection.commit(),
    );
    await call;
    await holds({ [id]: true }, { [taken]: true });
    assert.deepEqual(await captures.ends(), { [taken]: traits.isSync ? 'refused' : 'rolled_back' });
  });

  it('many events of one transaction are all there', async () => {
    const [connection, ids] = [await connect(), Array.from({ length: 120 }, newId)];
    await doing(
      () => connection.begin(),
      () => order(connection, ids[0] as string),
      ...ids.map((id) => () => captures.call(id, () => inTurn())),
      () => connection.commit(),
    );
    await holds({}, Object.fromEntries(ids.map((id) => [id, true])));
  });

  it("the application's own error is the one it gets, and no event follows it", async () => {
    const [connection, id] = [await connect(), newId()];
    const own = new Error('of the application');
    await doing(() => connection.begin());
    const call = doing(() =>
      captures.call(id, () =>
        inTurn(
          () => order(connection, id),
          () => {
            throw own;
          },
        ),
      ),
    );
    await assert.rejects(call, (error) => error === own);
    await doing(() => connection.rollback());
    await holds({ [id]: false }, { [id]: false });
  });

  it("a statement's own error is the driver's, and the transaction goes on where the database lets it", async () => {
    const [connection, id] = [await connect(), newId()];
    await doing(
      () => connection.begin(),
      () => connection.run('SAVEPOINT one'),
    );
    await assert.rejects(
      doing(() => connection.run('INSERT INTO no_such_table (id) VALUES (1)')),
      /no_such_table/,
    );
    await doing(
      () => connection.run('ROLLBACK TO one'),
      () => write(connection, id),
      () => connection.commit(),
    );
    await holds({ [id]: true }, { [id]: true });
  });

  it('one function with one transaction after the other has its event in the first', async () => {
    const [connection, id, other] = [await connect(), newId(), newId()];
    await doing(() =>
      captures.call(id, () =>
        inTurn(
          () => connection.begin(),
          () => order(connection, id),
          () => connection.commit(),
          () => connection.begin(),
          () => order(connection, other),
          () => connection.rollback(),
        ),
      ),
    );
    await holds({ [id]: true, [other]: false }, { [id]: true });
  });

  it('knows BEGIN, COMMIT and ROLLBACK however they are written', async () => {
    const { spellings } = get();
    for (const begin of spellings.begin) {
      for (const [ends, isThere] of [
        [spellings.commit, true],
        [spellings.rollback, false],
      ] as const) {
        for (const end of ends) {
          const [connection, id] = [await connect(), newId()];
          await doing(() =>
            captures.call(id, () =>
              inTurn(
                () => connection.run(begin),
                () => order(connection, id),
                () => connection.run(end),
              ),
            ),
          ).catch((error: { code?: unknown }) => {
            // After its own ROLLBACK a function has no transaction that its event could be in.
            if (isThere || error.code !== 'SVC_OUTBOX_NO_TRANSACTION') throw error;
          });
          await connection.close();
          opened.splice(opened.indexOf(connection), 1);
          await holds({ [id]: isThere }, { [id]: isThere });
        }
      }
    }
  });

  const { chain } = traits;
  if (chain !== undefined) {
    it('follows a commit that begins the next transaction', async () => {
      const [connection, first, second] = [await connect(), newId(), newId()];
      await doing(
        () => connection.begin(),
        () => write(connection, first),
        () => connection.run(chain),
      );
      await holds({ [first]: true }, { [first]: true });
      assert.deepEqual(await captures.ends(), { [first]: 'outbox' });
      await doing(
        () => write(connection, second),
        () => connection.rollback(),
      );
      await holds({ [second]: false }, { [second]: false });
      assert.deepEqual(await captures.ends(), { [first]: 'outbox', [second]: 'rolled_back' });
    });
  }

  it('is not confused by many transactions at once', async () => {
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 48271) % 2147483647;
      return seed % below;
    };
    const all: Record<string, boolean> = {};
    const worker = async (connection: TestConnection): Promise<void> => {
      for (let round = 0; round < 12; round++) {
        const isKept = random(2) === 0;
        const ids = Array.from({ length: 1 + random(3) }, newId);
        for (const id of ids) all[id] = isKept;
        const [outer = '', ...inner] = ids;
        const inside = async (): Promise<void> => {
          for (let rest = random(3); rest > 0; rest--) await turn();
          await order(connection, outer);
          for (const id of inner) {
            for (let rest = random(3); rest > 0; rest--) await turn();
            await write(connection, id);
          }
        };
        const owns = random(2) === 0;
        const whole = async (): Promise<void> => {
          await connection.begin();
          await (owns ? inside() : captures.call(outer, inside));
          await (isKept ? connection.commit() : connection.rollback());
        };
        await (owns ? captures.call(outer, whole) : whole()).catch((error: { code?: unknown }) => {
          if (error.code !== 'SVC_OUTBOX_NO_TRANSACTION') throw error;
        });
      }
    };
    await Promise.all(Array.from({ length: 6 }, async () => worker(await connect())));
    await holds(all, all);
  });

  if (traits.isSync) return;

  describe('where nothing is awaited', () => {
    it('a COMMIT waits for the event of a function that nobody waited for', async () => {
      const [connection, id] = [await connect(), newId()];
      await connection.begin();
      captures.call(id, () => {
        void order(connection, id);
      });
      await connection.commit();
      await holds({ [id]: true }, { [id]: true });
    });

    it('a COMMIT fails where such an event is not taken', async () => {
      const [connection, id] = [await connect(), newId()];
      const taken = await takenId(connection);
      await connection.begin();
      captures.call(taken, () => {
        void order(connection, id);
      });
      await assert.rejects(async () => connection.commit());
      await holds({ [id]: false }, { [taken]: true });
    });

    it('what is sent behind a COMMIT that waits stays behind it', async () => {
      const [connection, id, after, last] = [await connect(), newId(), newId(), newId()];
      await connection.begin();
      captures.call(id, () => {
        void order(connection, id);
      });
      const answered: string[] = [];
      await Promise.all([
        Promise.resolve(connection.commit()).then(() => answered.push('commit')),
        Promise.resolve(order(connection, after)).then(() => answered.push('after')),
        Promise.resolve(order(connection, last)).then(() => answered.push('last')),
      ]);
      assert.deepEqual(answered, ['commit', 'after', 'last']);
      await holds({ [id]: true, [after]: true, [last]: true }, { [id]: true });
    });

    it('a whole transaction is sent at once', async () => {
      const [connection, id, next] = [await connect(), newId(), newId()];
      const sent: unknown[] = [connection.begin()];
      captures.call(id, () => {
        sent.push(order(connection, id));
      });
      sent.push(connection.commit(), connection.begin());
      captures.call(next, () => {
        sent.push(order(connection, next));
      });
      sent.push(connection.rollback());
      await Promise.all(sent);
      await holds({ [id]: true, [next]: false }, { [id]: true, [next]: false });
    });

    it('a ROLLBACK that nobody waited for is before the event of the next function', async () => {
      const [connection, id, late] = [await connect(), newId(), newId()];
      await connection.begin();
      await order(connection, id);
      const call = captures.call(late, async () => {
        void connection.rollback();
      });
      await call.catch(() => {});
      await doing(() => connection.run('SELECT 1'));
      await holds({ [id]: false }, { [late]: false });
    });

    if (!traits.hasCallbacks) return;

    it('callbacks are called where the query was', async () => {
      const [connection, id, later] = [await connect(), newId(), newId()];
      const callback = connection.callback as NonNullable<TestConnection['callback']>;
      const query = callback.bind(connection);
      const then = (done: () => void, failed: (error: unknown) => void) => (error: unknown) =>
        error ? failed(error) : done();
      await captures.call(
        id,
        () =>
          new Promise<void>((resolve, reject) => {
            const commit = then(() => query('COMMIT', then(resolve, reject)), reject);
            const insert = then(() => {
              query(
                `INSERT INTO orders (id) VALUES ('${id}')`,
                then(() => {
                  captures.call(later, () => undefined);
                  query('SELECT 1', commit);
                }, reject),
              );
            }, reject);
            query('BEGIN', insert);
          }),
      );
      await holds({ [id]: true }, { [id]: true, [later]: true });
    });

    it('a COMMIT that fails tells so to its callback', async () => {
      const [connection, id] = [await connect(), newId()];
      const taken = await takenId(connection);
      const callback = connection.callback as NonNullable<TestConnection['callback']>;
      await connection.begin();
      await order(connection, id);
      captures.call(taken, () => undefined);
      const error = await new Promise((resolve) => callback.call(connection, 'COMMIT', resolve));
      assert.equal((error as { code?: unknown }).code, 'SVC_OUTBOX_INSERT');
      await holds({ [id]: false }, { [taken]: true });
    });
  });
}
