import { shared } from '../../ground/lifecycle.ts';

/** Two copies of SQLite in one process undo each other's locks on a file: svc uses the one that the application uses. */
export const usedDriver = shared(
  'sqlite-driver',
  (): { name: 'node:sqlite' | 'better-sqlite3' | undefined } => ({
    name: undefined,
  }),
);
