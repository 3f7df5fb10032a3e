import { exported, type OrmPatch, patchTransaction, prototypeOf } from './orm-patch.ts';

type Start = (this: object, ...args: unknown[]) => unknown;

/** Each dialect has a class of its own, which shows when the first client of it is made. */
export const knexTransactions: OrmPatch = {
  specifier: 'knex',
  patch(exports) {
    const client = prototypeOf(exported(exports, 'Client')) as { initializePool?: Start } | undefined;
    const original = client?.initializePool;
    if (client === undefined || typeof original !== 'function') return false;
    if (watched in original) return true;
    const initializePool: Start = function (...args) {
      // A callback that returns no promise calls `trx.commit()` when it wants to.
      patchTransaction(Object.getPrototypeOf(this), 'transaction', true);
      return Reflect.apply(original, this, args);
    };
    client.initializePool = Object.assign(initializePool, { [watched]: true });
    return true;
  },
};

const watched = Symbol.for('svc.knex-clients');
