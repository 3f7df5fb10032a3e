import assert from 'node:assert/strict';
import { createSameTable } from '../../src/outbox/join.ts';
import type { DriverSession } from '../../src/transaction/driver.ts';
import { clockOfEach } from '../support/fake-time.ts';
import { useLogger } from '../support/log.ts';

type SameTable = ReturnType<typeof createSameTable>;

function connection(dialect: DriverSession['dialect'] = 'postgres'): DriverSession {
  return { dialect, status: () => 'open', run: () => undefined };
}

describe('the table of the application and that of svc', () => {
  const time = clockOfEach();
  let there: Set<string>;
  let asked: string[];
  let said: string[];
  let isAway: boolean;
  /** Of the rows that are there. */
  let idOfRows: number;
  beforeEach(() => {
    there = new Set();
    asked = [];
    said = [];
    isAway = false;
    idOfRows = 20_001;
  });

  const checkOf = (deletesAtOnce = false): SameTable => {
    const say = (message: string): void => void said.push(message);
    useLogger({ debug: say, info: say, warn: say, error: say });
    return createSameTable({
      ...{ dialect: 'postgres', table: 'events', deletesAtOnce },
      store: {
        lastId: async () => 20_000,
        async holds(eventId, afterId) {
          assert.ok(afterId === 10_000 || afterId === 0);
          asked.push(eventId);
          if (isAway) throw new Error('away');
          return there.has(eventId) && idOfRows > afterId;
        },
      },
    });
  };
  const commit = async (table: SameTable, on: DriverSession, eventId: string): Promise<void> => {
    table.watch(on, eventId)?.(true);
    await time.tickAsync(2_000);
  };
  const refused = (table: SameTable, on: DriverSession): void =>
    assert.throws(() => table.watch(on, 'next'), { code: 'SVC_OUTBOX_OTHER_DATABASE' });

  it('is asked for once per connection where the row is there', async () => {
    const [table, one] = [checkOf(), connection()];
    there.add('1');
    await commit(table, one, '1');
    await commit(table, one, '2');
    assert.deepEqual([asked, said, table.problem()], [['1'], [], undefined]);
  });

  it('a row that shows later, as of a replica, is there', async () => {
    const [table, one] = [checkOf(), connection()];
    table.watch(one, '1')?.(true);
    await time.tickAsync(1_999);
    there.add('1');
    await time.tickAsync(1);
    assert.deepEqual([asked, said], [['1', '1'], []]);
    assert.equal(table.watch(one, '2'), undefined);
  });

  it('rows far below one with a high id are there, whether or not rows are deleted at once', async () => {
    for (const deletesAtOnce of [false, true]) {
      const [table, one] = [checkOf(deletesAtOnce), connection()];
      idOfRows = 12;
      there.add('1');
      await commit(table, one, '1');
      assert.equal(table.watch(one, '2'), undefined);
      assert.deepEqual([said, table.problem()], [[], undefined]);
    }
  });

  it('two events of a process that are not there are enough; all its connections are refused then', async () => {
    const table = checkOf();
    await commit(table, connection(), '1');
    assert.equal(table.problem(), undefined, 'somebody may have discarded it');
    await commit(table, connection(), '2');
    refused(table, connection());
    assert.match(
      table.problem() ?? '',
      /no relay of this application sends them: name the application's own/,
    );
    assert.equal(said.length, 1);
  });

  it('beside connections that are right, only those that are wrong are refused', async () => {
    const [table, right, wrong] = [checkOf(), connection(), connection()];
    there.add('1');
    await commit(table, right, '1');
    await commit(table, wrong, '2');
    await commit(table, wrong, '3');
    refused(table, wrong);
    assert.doesNotThrow(() => table.watch(right, '4'));
    assert.doesNotThrow(() => table.watch(connection(), '5'));
  });

  it('what was rolled back, and a database that is away, say nothing: the next event does', async () => {
    const [table, one] = [checkOf(), connection()];
    table.watch(one, '1')?.(false);
    isAway = true;
    await commit(table, one, '2');
    await commit(table, one, '3');
    isAway = false;
    there.add('4');
    await commit(table, one, '4');
    assert.deepEqual([asked, said, table.problem()], [['2', '3', '4'], [], undefined]);
  });

  it('while one event is looked for, others of its connection wait for nothing', async () => {
    const [table, one] = [checkOf(), connection()];
    table.watch(one, '1')?.(true);
    assert.equal(table.watch(one, '2'), undefined);
  });

  it('another kind of database is refused at once', () => {
    refused(checkOf(), connection('mysql'));
  });

  it('where rows are deleted at once nothing is refused; twenty in vain are worth a line', async () => {
    const [table, one] = [checkOf(true), connection()];
    for (let event = 1; event <= 19; event++) await commit(table, one, String(event));
    assert.deepEqual(said, []);
    for (let event = 20; event <= 40; event++) await commit(table, one, String(event));
    assert.equal(said.length, 1);
    assert.match(said[0] ?? '', /none of 20 committed events was seen/);
    assert.equal(table.problem(), undefined);
    there.add('41');
    await commit(table, one, '41');
    assert.equal(table.watch(one, '42'), undefined);
  });
});
