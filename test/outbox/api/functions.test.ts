import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type BetterSqlite3 from 'better-sqlite3';
import type mysqlPromise from 'mysql2/promise';
import type pg from 'pg';
import { startOwnWork } from '../../../src/ground/lifecycle.ts';
import { transactionsOf } from '../../../src/outbox/api/executor.ts';
import type { OutboxEvent } from '../../../src/outbox/api/outbox-event.ts';
import type { RunningOutbox } from '../../../src/outbox/api/running-outbox.ts';
import { Captures } from '../../contract/captured.ts';
import { requiring } from '../../support/requires.ts';
import { type Shop, type ShopKind, shopKinds } from './shops.ts';

const event = (aggregateId: string): OutboxEvent => ({
  eventType: 'ORDERED',
  aggregateType: 'Order',
  aggregateId,
  payload: {},
});
const failure = new Error('thrown by the application');
const fail = (): never => {
  throw failure;
};

for (const { title, needs, isFollowed, open } of shopKinds) {
  const suite = (body: (this: Mocha.Suite) => void) =>
    needs === undefined
      ? describe(`outbox functions on ${title}`, body)
      : requiring(needs, `outbox functions on ${title}`, body);
  suite(function () {
    this.timeout(30_000);
    let shop: Shop;
    let captures: Captures;
    let outbox: RunningOutbox;

    before(async () => {
      shop = await open();
    });
    after(() => shop?.close());
    beforeEach(async () => {
      await shop.clear();
      captures = new Captures();
      outbox = captures.functions();
    });

    const both = async (): Promise<string[][]> => [await shop.ids('orders'), await shop.ids('events')];
    const order = async (executor: unknown, id: string) => void (await shop.order(executor, id));
    const place = (executor: unknown, id: string) => captures.call(id, () => order(executor, id));
    const run = <R>(work: (executor: unknown) => Promise<R>) =>
      outbox.runInTransaction(transactionsOf(shop.dataSource), work);

    it('save: events are committed with the transaction', async () => {
      await shop.transaction(async (tx) => {
        await shop.order(tx, 'a');
        await outbox.save(tx, [event('a'), event('b'), event('c')]);
      });
      assert.deepEqual(await both(), [['a'], ['a', 'b', 'c']]);
      assert.deepEqual(await captures.ends(), { a: 'outbox', b: 'outbox', c: 'outbox' });
      assert.equal(captures.unconfirmed, isFollowed ? 0 : 3);
    });

    it('save: events are rolled back with the transaction', async () => {
      const ended = shop.transaction(async (tx) => {
        await shop.order(tx, 'a');
        await outbox.save(tx, [event('a')]);
        fail();
      });
      await assert.rejects(ended, failure);
      assert.deepEqual(await both(), [[], []]);
      // Of a driver that is not followed nobody has seen it.
      assert.deepEqual(await captures.ends(), { a: isFollowed ? 'rolled_back' : 'outbox' });
    });

    it('save: where the database refuses an event, the transaction fails', async () => {
      const ended = shop.transaction(async (tx) => {
        await shop.order(tx, 'a');
        const saved = outbox.save(tx, [event('a'), event('a'), event('b')]);
        // One that svc follows fails as well where the application goes on.
        await (isFollowed ? saved.catch(() => {}) : saved);
      });
      await assert.rejects(ended, { code: 'SVC_OUTBOX_INSERT' });
      assert.deepEqual(await both(), [[], []]);
    });

    it('save: an application that goes on after a refusal has committed what was stored before it, unless svc keeps it', async () => {
      const tooLong = 'x'.repeat(65_536);
      const ended = shop.transaction(async (tx) => {
        await shop.order(tx, 'a');
        await outbox.save(tx, [event('a'), event(tooLong), event('c')]).catch(() => {});
      });
      if (isFollowed) await assert.rejects(ended, { code: 'SVC_OUTBOX_TOO_LONG' });
      else await ended;
      assert.deepEqual(await both(), isFollowed ? [[], []] : [['a'], ['a']]);
      const a = isFollowed ? 'rolled_back' : 'outbox';
      assert.deepEqual(await captures.ends(), { a, [tooLong]: 'refused' });
      assert.equal(captures.unconfirmed, isFollowed ? 0 : 1);
    });

    it('withTransaction: functions in it, and what they save, are in the transaction', async () => {
      const result = await shop.transaction((tx) =>
        outbox.withTransaction(tx, async () => {
          await place(tx, 'a');
          await captures.call('silent', () => pause(1));
          await outbox.save(tx, [event('b')]);
          return 7;
        }),
      );
      assert.equal(result, 7);
      assert.deepEqual(await both(), [['a'], ['a', 'b', 'silent']]);
      assert.deepEqual(await captures.ends(), { a: 'outbox', b: 'outbox', silent: 'outbox' });
    });

    it('withTransaction: rolled back with it', async () => {
      const ended = shop.transaction((tx) =>
        outbox.withTransaction(tx, async () => {
          await place(tx, 'a');
          await outbox.save(tx, [event('b')]);
          fail();
        }),
      );
      await assert.rejects(ended, failure);
      assert.deepEqual(await both(), [[], []]);
      assert.deepEqual(await captures.ends(), { a: 'rolled_back', b: 'rolled_back' });
    });

    it('withTransaction: an event that is refused fails the transaction, also where its error is swallowed', async () => {
      await shop.transaction((tx) => outbox.save(tx, [event('taken')]));
      const ended = shop.transaction((tx) =>
        outbox.withTransaction(tx, async () => {
          await place(tx, 'taken').catch(() => {});
        }),
      );
      await assert.rejects(ended);
      assert.deepEqual(await both(), [[], ['taken']]);
    });

    it('withTransaction: what goes on after its end is in no transaction', async () => {
      let late: Promise<void> | undefined;
      await shop.transaction((tx) =>
        outbox.withTransaction(tx, async () => {
          late = captures.call('late', () => pause(100));
          late.catch(() => {});
        }),
      );
      await assert.rejects(async () => late, { code: 'SVC_OUTBOX_NO_TRANSACTION' });
      assert.deepEqual(await shop.ids('events'), []);
    });

    it('withTransaction: one may end before another in the same transaction', async () => {
      await shop.transaction((tx) =>
        Promise.all([
          outbox.withTransaction(tx, () => place(tx, 'a')),
          outbox.withTransaction(tx, () => pause(50).then(() => place(tx, 'b'))),
          outbox.save(tx, [event('c')]),
        ]),
      );
      assert.deepEqual(await both(), [
        ['a', 'b'],
        ['a', 'b', 'c'],
      ]);
      assert.deepEqual(await captures.ends(), { a: 'outbox', b: 'outbox', c: 'outbox' });
    });

    it('runInTransaction: the event of the function that called it knows what it gave back', async () => {
      const placed = await captures.call('a', () =>
        run(async (tx) => {
          await shop.order(tx, 'a');
          return { id: 'a' };
        }),
      );
      assert.deepEqual(placed, { id: 'a' });
      assert.deepEqual(await both(), [['a'], ['a']]);
      assert.deepEqual(await captures.ends(), { a: 'outbox' });
      assert.deepEqual(captures.results.get('a'), { value: { id: 'a' }, isResult: true });
      assert.equal(captures.unconfirmed, 0);
    });

    it('runInTransaction: rolled back where its function fails', async () => {
      const ended = run(async (tx) => {
        await place(tx, 'a');
        await outbox.save(tx, [event('b')]);
        fail();
      });
      await assert.rejects(ended, failure);
      assert.deepEqual(await both(), [[], []]);
      assert.deepEqual(await captures.ends(), { a: 'rolled_back', b: 'rolled_back' });
    });

    it('runInTransaction: rolled back where its event is refused', async () => {
      await shop.transaction((tx) => outbox.save(tx, [event('taken')]));
      const ended = captures.call('taken', () => run((tx) => order(tx, 'a')));
      await assert.rejects(ended, { code: 'SVC_OUTBOX_INSERT' });
      assert.deepEqual(await both(), [[], ['taken']]);
    });

    it('current: says which transaction there is', async () => {
      const nothing = { joined: false, via: null, dialect: null, open: 0 };
      const seen = await shop.transaction((tx) => outbox.withTransaction(tx, async () => outbox.current()));
      assert.deepEqual({ ...seen, dialect: null }, { joined: true, via: 'executor', dialect: null, open: 1 });
      assert.ok(seen.dialect);
      assert.deepEqual(outbox.current(), nothing);
      const detected = shop.transaction(async (tx) => {
        await shop.order(tx, 'a');
        return outbox.current().via;
      });
      assert.equal(await detected, isFollowed ? 'driver' : null);
    });

    it('outside of a transaction nothing is run, and nothing saved', async () => {
      let isRun = false;
      const work = async (): Promise<void> => {
        isRun = true;
      };
      const code = 'SVC_OUTBOX_NO_TRANSACTION';
      await shop.outside?.(async (executor) => {
        await assert.rejects(outbox.save(executor, [event('a')]), { code });
        await assert.rejects(outbox.withTransaction(executor, work), { code });
      });
      assert.equal(isRun, false);
    });

    it('outside of a transaction events are stored by themselves where that is allowed', async () => {
      const alone: string[] = [];
      const allowed = new Captures(async ({ eventId }) => void alone.push(eventId));
      await shop.outside?.(async (executor) => {
        await allowed.functions().save(executor, [event('a')]);
        await allowed.functions().withTransaction(executor, () => allowed.call('b', () => pause(1)));
      });
      assert.deepEqual(alone, shop.outside === undefined ? [] : ['a', 'b']);
    });
  });
}

describe('outbox.save in a transaction of better-sqlite3, which waits for nothing', () => {
  it('is done when it returns', async () => {
    const shop = await shopKinds.find(({ title }) => title === 'better-sqlite3')?.open();
    assert.ok(shop);
    const captures = new Captures();
    const handle = shop.dataSource as BetterSqlite3.Database;
    handle.transaction(() => {
      void captures.functions().save(handle, [event('a'), event('b')]);
    })();
    assert.deepEqual(await shop.ids('events'), ['a', 'b']);
    assert.deepEqual(await captures.ends(), { a: 'outbox', b: 'outbox' });
    await shop.close();
  });
});

requiring('postgres', 'outbox functions on a port over a driver that is followed', () => {
  it('are refused outside of a transaction, and in it belong to that', async () => {
    const shop = await shopKinds.find(({ title }) => title === 'pg')?.open();
    assert.ok(shop);
    const captures = new Captures();
    const pool = shop.dataSource as pg.Pool;
    const port = (on: pg.Pool | pg.ClientBase) => ({
      dialect: 'postgres',
      execute: (text: string, params: unknown[]) => on.query(text, params),
    });
    const code = 'SVC_OUTBOX_NO_TRANSACTION';
    await assert.rejects(captures.functions().save(port(pool), [event('a')]), { code });
    await captures
      .functions()
      .runInTransaction(transactionsOf(pool), (client) =>
        captures.functions().save(port(client as pg.ClientBase), [event('b')]),
      );
    assert.deepEqual(await shop.ids('events'), ['b']);
    assert.equal(captures.unconfirmed, 0);
    await shop.close();
  });
});

const overMysql = shopKinds.find(({ title }) => title === 'mysql2/promise') as ShopKind;
requiring('mariadb', 'outbox functions over a connection of MariaDB that is not followed', () => {
  it('an event that the database has refused is not counted with those that are committed', async () => {
    const captures = new Captures();
    const shop = await overMysql.open();
    try {
      await startOwnWork(() =>
        shop.transaction(async (tx) => {
          const { execute } = tx as mysqlPromise.Connection;
          const port = {
            dialect: 'mysql' as const,
            execute: (text: string, params: unknown[]) => Reflect.apply(execute, tx, [text, params]),
          };
          await captures.functions().save(port, [event('a')]);
          await captures
            .functions()
            .save(port, [event('b'), event('a')])
            .catch(() => {});
        }),
      );
      assert.deepEqual(await shop.ids('events'), ['a', 'b']);
      assert.deepEqual(await captures.ends(), { a: 'rolled_back', b: 'outbox' });
      assert.equal(captures.unconfirmed, 2);
    } finally {
      await shop.close();
    }
  });
});
