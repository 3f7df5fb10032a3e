import assert from 'node:assert/strict';
import { currentScope, runInScope, Scope } from '../../../src/transaction/transaction.ts';
import { patchOf } from './patch-of.ts';

type Work = (tx: string) => unknown;

/** Calls the `transaction()` of a patched ORM, which does `run`. */
function runTransaction<R>(args: readonly unknown[], run: (given: readonly unknown[]) => R): R {
  class EntityManager {
    transaction(...given: unknown[]): R {
      return run(given);
    }
  }
  assert.equal(patchOf('typeorm').patch({ EntityManager }), true);
  return new EntityManager().transaction(...args);
}

/** The same for Knex, whose callbacks may end the transaction themselves. */
function runOfKnex<R>(args: readonly unknown[], run: (given: readonly unknown[]) => R): R {
  class Client {
    initializePool(): void {}
  }
  class Postgres extends Client {
    transaction(...given: unknown[]): R {
      return run(given);
    }
  }
  assert.equal(patchOf('knex').patch({ Client }), true);
  const client = new Postgres();
  client.initializePool();
  return client.transaction(...args);
}

/** As an ORM does it; `seen` is what is known when the COMMIT is sent. */
async function transaction(work: Work, seen: unknown[]): Promise<unknown> {
  await null;
  const result = await work('tx');
  seen.push(currentScope()?.callbackResult);
  return result;
}

const run = (work: Work, seen: unknown[]): Promise<unknown> =>
  runTransaction([work], ([watched]) => transaction(watched as Work, seen));

describe('the transaction() of an ORM', () => {
  // A test that begins a transaction outside of any scope leaves one to all that follow it.
  const outside = (test: () => unknown) => () => runInScope(undefined, test);

  it(
    'knows what its callback returned before the COMMIT',
    outside(async () => {
      const seen: unknown[] = [];
      assert.equal(await run(async (tx) => `${tx} 1`, seen), 'tx 1');
      assert.equal(await run((tx) => `${tx} 2`, seen), 'tx 2');
      assert.deepEqual(seen, [{ value: 'tx 1' }, { value: 'tx 2' }]);
    }),
  );

  it(
    'runs in a scope of its own within that of its caller',
    outside(async () => {
      const outer = new Scope(undefined);
      const inner: (Scope | undefined)[] = [];
      const note = async (): Promise<void> => void inner.push(currentScope());
      await runInScope(outer, () => Promise.all([run(note, []), run(note, [])]));
      assert.equal(inner.length, 2);
      assert.notEqual(inner[0], inner[1]);
      for (const scope of inner) assert.equal(scope?.parent, outer);
      assert.equal(outer.callbackResult, undefined);
    }),
  );

  it(
    'gives the ORM the promise that the callback made',
    outside(() => {
      const promise = Promise.resolve(1);
      const given = runTransaction([() => promise], ([watched]) => (watched as Work)('tx'));
      assert.equal(given, promise);
    }),
  );

  it(
    'lets a query that runs when it is asked run once',
    outside(async () => {
      let times = 0;
      const query = {
        // biome-ignore lint/suspicious/noThenProperty: as the queries of Knex and Drizzle are
        then(resolve: (value: unknown) => void): void {
          times++;
          resolve('done');
        },
      };
      const seen: unknown[] = [];
      assert.equal(await run(() => query, seen), 'done');
      assert.deepEqual([times, seen], [1, [{ value: 'done' }]]);
    }),
  );

  it(
    'leaves what the callback throws as it is',
    outside(async () => {
      const error = new Error('from the callback');
      await assert.rejects(
        run(() => Promise.reject(error), []),
        (thrown) => thrown === error,
      );
      await assert.rejects(
        run(() => {
          throw error;
        }, []),
        (thrown) => thrown === error,
      );
    }),
  );

  it(
    'is synchronous where the ORM is',
    outside(() => {
      const given = runTransaction([() => 1], ([watched]) => [
        (watched as Work)('tx'),
        currentScope()?.callbackResult,
      ]);
      assert.deepEqual(given, [1, { value: 1 }]);
      assert.equal(currentScope(), undefined);
    }),
  );

  it(
    'has no result of a callback that ends the transaction itself',
    outside(() => {
      const given = runOfKnex([() => 1], ([watched]) => (watched as Work)('tx'));
      const seen = runOfKnex([() => 1], ([watched]) => [
        (watched as Work)('tx'),
        currentScope() !== undefined,
        currentScope()?.callbackResult,
      ]);
      assert.deepEqual([given, seen], [1, [1, true, undefined]]);
    }),
  );

  it(
    'changes nothing without a callback',
    outside(() => {
      const args = [{ isolationLevel: 'serializable' }];
      runTransaction(args, (given) => {
        assert.deepEqual(given, args);
        assert.equal(given[0], args[0]);
        assert.equal(currentScope(), undefined);
      });
    }),
  );
});

describe('an operation of an ORM that opens its own transaction', () => {
  it('tells its result before the COMMIT, as long as the event of a function around it is to be made', () => {
    class EntityManager {
      transaction(): void {}
      save(_entity: object): unknown {
        const found = currentScope()?.callbackResult;
        return typeof found === 'function' ? found() : found;
      }
    }
    assert.equal(patchOf('typeorm').patch({ EntityManager }), true);
    const entity = { id: 1 };
    const save = () => new EntityManager().save(entity);
    runInScope(undefined, () => assert.equal(save(), undefined));
    const outer = new Scope(undefined);
    const inner = new Scope(outer);
    outer.wantsCallbackResult = true;
    assert.equal(runInScope(inner, save), undefined);
    outer.beforeCommit = () => undefined;
    assert.deepEqual(runInScope(inner, save), { value: entity });
  });
});
