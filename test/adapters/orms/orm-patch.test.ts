import assert from 'node:assert/strict';
import { ormPatches } from '../../../src/adapters/orms/orms.ts';
import { currentScope, runInScope, Scope } from '../../../src/transaction/transaction.ts';
import { patchOf } from './patch-of.ts';

type Work = () => unknown;

const hasScope = (): boolean => currentScope() !== undefined;

describe('the classes of ORMs', () => {
  it('are patched once, in each of several copies', () => {
    const copy = () => {
      class EntityManager {
        transaction(isolation: string, work: Work): unknown[] {
          return [isolation, work()];
        }
      }
      return { EntityManager };
    };
    for (const exports of [copy(), copy()]) {
      assert.equal(patchOf('typeorm').patch(exports), true);
      const { transaction } = exports.EntityManager.prototype;
      assert.equal(patchOf('typeorm').patch({ default: exports }), true);
      assert.equal(exports.EntityManager.prototype.transaction, transaction);
      assert.equal(transaction.name, 'transaction');
      assert.deepEqual(new exports.EntityManager().transaction('SERIALIZABLE', hasScope), [
        'SERIALIZABLE',
        true,
      ]);
    }
  });

  it('of a version that svc does not know are left alone', () => {
    for (const exports of [
      {},
      { TransactionBuilder: undefined },
      { TransactionBuilder: class {} },
      { default: 1 },
    ])
      assert.equal(patchOf('kysely').patch(exports), false);
    for (const orm of ormPatches)
      for (const exports of [{}, { default: null }, { default: class {} }])
        assert.equal(orm.patch(exports), false, orm.specifier);
    assert.equal(patchOf('knex').patch({ Client: class {} }), false);
    assert.equal(patchOf('@prisma/client/runtime/client').patch({}), false);
  });

  it('of Knex show when the first client of a dialect is made', () => {
    class Client {
      constructor() {
        this.initializePool();
      }
      initializePool(): void {}
    }
    class Postgres extends Client {
      transaction(work: Work): unknown {
        return work();
      }
    }
    assert.equal(patchOf('knex').patch({ Client }), true);
    assert.equal(patchOf('knex').patch({ Client }), true);
    assert.equal(new Postgres().transaction(hasScope), true);
  });

  it('of Prisma are made for each client, also where its exports cannot be changed', () => {
    const getPrismaClient = () =>
      class PrismaClient {
        $transaction(work: Work): unknown {
          return work();
        }
      };
    const plain = { getPrismaClient };
    assert.equal(patchOf('@prisma/client/runtime/client').patch(plain), true);
    const fixed = Object.defineProperty({}, 'getPrismaClient', { get: () => getPrismaClient });
    const replaced = patchOf('@prisma/client/runtime/client').patch(fixed) as typeof plain;
    for (const runtime of [plain, replaced])
      assert.equal(new (runtime.getPrismaClient())().$transaction(hasScope), true);
  });

  it('that were called wrongly say so themselves, as ever', async () => {
    class EntityManager {
      getUnitOfWork(): never {
        throw new Error('the global context');
      }
      async flush(): Promise<void> {
        this.getUnitOfWork();
      }
      transactional(): void {}
    }
    assert.equal(patchOf('@mikro-orm/core').patch({ EntityManager }), true);
    const scope = new Scope(undefined);
    scope.wantsCallbackResult = true;
    scope.beforeCommit = () => undefined;
    const flushed = runInScope(scope, () => new EntityManager().flush());
    await assert.rejects(flushed, { message: 'the global context' });
  });
});
