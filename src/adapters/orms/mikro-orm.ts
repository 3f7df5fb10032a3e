import type { CallbackResult } from '../../transaction/transaction.ts';
import {
  exported,
  isObject,
  type OrmPatch,
  patchOperation,
  patchTransaction,
  prototypeOf,
} from './orm-patch.ts';

/** The packages of the databases import it by this name. */
export const mikroOrmTransactions: OrmPatch = {
  specifier: '@mikro-orm/core',
  patch(exports) {
    const manager = prototypeOf(exported(exports, 'EntityManager'));
    patchOperation(manager, 'flush', (self) => flushed(self as EntityManager));
    return patchTransaction(manager, 'transactional');
  },
};

interface EntityManager {
  getUnitOfWork?(): UnitOfWork;
}

interface UnitOfWork {
  getPersistStack?(): Iterable<unknown>;
  getRemoveStack?(): Iterable<unknown>;
  getChangeSets?(): readonly { readonly entity: unknown }[];
}

/**
 * It gives nothing back: what was written is its result. That is what the application has named, without what came along with it;
 * where it has named nothing, what it has changed. Of several a list.
 */
function flushed(manager: EntityManager): () => CallbackResult | undefined {
  const work = manager.getUnitOfWork?.();
  const named = [...(work?.getPersistStack?.() ?? []), ...(work?.getRemoveStack?.() ?? [])];
  return () => {
    const changed = named.length > 0 ? named : work?.getChangeSets?.().map(({ entity }) => entity);
    const found = changed?.filter(isObject) ?? [];
    if (found.length === 0) return undefined;
    return { value: found.length === 1 ? found[0] : found };
  };
}
