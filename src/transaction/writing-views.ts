import { shared } from '../ground/lifecycle.ts';
import type { Dialect } from './dialect.ts';

/**
 * Views whose query calls a function that may write, and tables with such a policy: who reads one may write. The database names them,
 * at the start and from time to time; those that are made through a connection that svc follows are known from then on. Names without
 * their schema, in lower case: another view of that name counts as one that writes, too.
 */
interface Known {
  /** Counts the changes. */
  version: number;
  readonly told: Map<Dialect, ReadonlySet<string>>;
  readonly made: Map<Dialect, Set<string>>;
}

const known: Known = shared('writing-views', () => ({ version: 0, told: new Map(), made: new Map() }));
const mostMade = 1_000;

/** Changes whenever a statement may have become another kind. */
export function writingViewsVersion(): number {
  return known.version;
}

/** All that the database knows of. */
export function tellWritingViews(dialect: Dialect, names: readonly string[]): void {
  const before = known.told.get(dialect);
  const told = new Set(names.map((name) => name.toLowerCase()));
  if (before !== undefined && before.size === told.size && [...told].every((name) => before.has(name)))
    return;
  known.told.set(dialect, told);
  known.version++;
}

/** One that the application makes. */
export function addWritingView(dialect: Dialect, name: string): void {
  const made = known.made.get(dialect) ?? new Set();
  known.made.set(dialect, made);
  if (made.has(name.toLowerCase()) || made.size >= mostMade) return;
  made.add(name.toLowerCase());
  known.version++;
}

/** Whether a statement has the name of one, wherever it stands. */
export function namesWritingView(statement: string, dialect: Dialect): boolean {
  const sets = [known.told.get(dialect), known.made.get(dialect)].filter(
    (names) => names !== undefined && names.size > 0,
  );
  if (sets.length === 0) return false;
  const text = statement.toLowerCase();
  const words = text.match(/[\w$\u0080-\uffff]+/g) ?? [];
  return sets.some((names) => {
    if (words.some((word) => names?.has(word))) return true;
    for (const name of names ?? []) if (!isWord.test(name) && text.includes(name)) return true;
    return false;
  });
}

const isWord = /^[\w$\u0080-\uffff]+$/;
