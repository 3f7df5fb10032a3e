import { compilePaths, deadState, type PathState } from '../protect/marks/path-states.ts';

/**
 * Fields of a payload: paths as rules write them (`customer.email`, `items[*].phone`, `**.iban`; what stands below is meant
 * too), or a function that is asked with the path of one field.
 */
export type FieldChoice = readonly string[] | ((path: string) => boolean);

/** A choice, followed from the payload down to one field. */
export interface Chosen {
  member(key: string): Chosen;
  element(): Chosen;
  has(path: string): boolean;
}

/** Throws a `TypeError` for a path that is none. */
export function chosenBy(choice: FieldChoice): Chosen {
  if (typeof choice === 'function') return same(choice);
  let chosen = compiled.get(choice);
  if (chosen === undefined) {
    chosen = at(compilePaths(choice.map((path) => ({ path, ...anyRule }))));
    compiled.set(choice, chosen);
  }
  return chosen;
}

/** A consumer gives the same list with every event. */
const compiled = new WeakMap<readonly string[], Chosen>();
/** Only where the paths lead is asked for. */
const anyRule = { type: 'CUSTOM', strategy: 'ENCRYPT', level: 'NORMAL' } as const;

function same(has: (path: string) => boolean): Chosen {
  const chosen: Chosen = { member: () => chosen, element: () => chosen, has };
  return chosen;
}

export const everyField: Chosen = same(() => true);
export const noField: Chosen = same(() => false);

function at(state: PathState): Chosen {
  if (state.rule !== undefined) return everyField;
  if (state === deadState) return noField;
  return {
    member: (key) => at(state.next(key)),
    element: () => at(state.element()),
    has: () => false,
  };
}
