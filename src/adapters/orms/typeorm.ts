import {
  exported,
  isObject,
  type OrmPatch,
  patchOperation,
  patchTransaction,
  prototypeOf,
} from './orm-patch.ts';

/** What repositories and entities do goes through their manager, `DataSource.transaction` too. */
export const typeormTransactions: OrmPatch = {
  specifier: 'typeorm',
  patch(exports) {
    const manager = prototypeOf(exported(exports, 'EntityManager'));
    // It gives back what it is given, which has its generated values before the COMMIT.
    for (const name of ['save', 'softRemove', 'recover'])
      patchOperation(manager, name, (_self, args) => () => ({ value: entityOf(args) }));
    // And has lost its id when it is removed.
    patchOperation(manager, 'remove', (_self, args) => {
      const given = entityOf(args);
      const value = Array.isArray(given) ? given.map(copyOf) : copyOf(given);
      return () => ({ value });
    });
    return patchTransaction(manager, 'transaction');
  },
};

/** The class, name or schema of an entity may come before it. */
function entityOf([first, second]: readonly unknown[]): unknown {
  const isTarget = typeof first === 'function' || typeof first === 'string' || has(first, '@instanceof');
  return isTarget && second !== undefined ? second : first;
}

/** What is read only when it is asked for, as a lazy relation, stays so. */
function copyOf(entity: unknown): unknown {
  if (!isObject(entity)) return entity;
  return Object.create(Object.getPrototypeOf(entity), Object.getOwnPropertyDescriptors(entity));
}

function has(value: unknown, name: string): boolean {
  return isObject(value) && name in value;
}
