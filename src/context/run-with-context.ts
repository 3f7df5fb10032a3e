import { SvcError } from '../ground/errors.ts';
import { isNamedValues, plainObject, unknownName } from '../ground/names.ts';
import {
  type AddedContext,
  type ContextStore,
  contextStorage,
  createScope,
  scalarText,
} from './context-store.ts';
import { followContextManager } from './otel-carrier.ts';

/** What the application knows better than any header. `undefined` leaves a value as it is, `null` says there is none. */
export interface ContextValues {
  readonly userId?: string | number | bigint | null | undefined;
  readonly sessionId?: string | number | bigint | null | undefined;
  readonly correlationId?: string | number | bigint | null | undefined;
  /** Added to the tags that are there; a `null` removes one. */
  readonly tags?:
    | Readonly<Record<string, string | number | bigint | boolean | null | undefined>>
    | null
    | undefined;
}

/**
 * Runs `fn` with these values for every event that it, and all it starts, publishes. Inside a request or another
 * `runWithContext` the values come on top, and end with `fn`; outside, the events in `fn` share one trace.
 *
 * @throws SvcError `SVC_CONTEXT_VALUES` for what is no object, and for an unknown name in it
 */
export function runWithContext<T>(values: ContextValues, fn: () => T): T {
  followContextManager();
  const storage = contextStorage();
  const outer = storage.getStore();
  const scope = outer?.scope ?? createScope(null, null, undefined);
  return storage.run({ scope, added: merge(outer?.added ?? null, values) }, fn);
}

/**
 * Adds these values to the current HTTP request, for all that follows in it: what an authentication hook wants. Outside of a
 * request they hold for the rest of the current asynchronous execution, as with `AsyncLocalStorage.enterWith`: neither for who has
 * called and awaited it, nor for executions beside it. What runs one after another in one execution, such as invocations of AWS Lambda
 * or messages of a consumer, needs `runWithContext`. There a call that names another user, session or correlation id than an earlier
 * `setContext` takes over nothing from it.
 *
 * @throws SvcError `SVC_CONTEXT_VALUES` for what is no object, and for an unknown name in it
 */
export function setContext(values: ContextValues): void {
  check(values);
  followContextManager();
  const storage = contextStorage();
  const store = storage.getStore();
  if (store !== undefined && store.scope.request !== null) store.added = merge(store.added, values);
  else storage.enterWith(copyWith(store, values));
}

/** Copy on write: executions that go side by side may have inherited the same store. */
function copyWith(store: ContextStore | undefined, values: ContextValues): ContextStore {
  const isSet = store?.setIn !== undefined;
  const outer = isSet ? (store.setIn ?? undefined) : store;
  // Not of whoever it was set for: these are the values of somebody else.
  const base = isSet && namesAnother(store.added, values) ? outer : store;
  return {
    scope: base?.scope ?? createScope(null, null, undefined),
    added: merge(base?.added ?? null, values),
    setIn: outer ?? null,
  };
}

function namesAnother(old: AddedContext | null, values: ContextValues): boolean {
  return (['userId', 'sessionId', 'correlationId'] as const).some((name) => {
    const [before, now] = [old?.[name] ?? null, values[name]];
    return before !== null && now !== undefined && scalarText(now) !== before;
  });
}

const names = ['userId', 'sessionId', 'correlationId', 'tags'];

/** What callers without types, and their spelling mistakes, hand over would be lost without a word. */
function check(values: unknown): void {
  if (!isNamedValues(values)) throw wrong(`the values must be ${plainObject}`);
  for (const name of Object.keys(values))
    if (!names.includes(name)) throw wrong(unknownName('value', name, names));
  const { tags } = values;
  if (tags !== undefined && tags !== null && !isNamedValues(tags)) throw wrong(`tags must be ${plainObject}`);
}

function wrong(what: string): SvcError {
  return new SvcError('SVC_CONTEXT_VALUES', `setContext() or runWithContext(): ${what}`);
}

function merge(old: AddedContext | null, values: ContextValues): AddedContext {
  check(values);
  return {
    userId: textOr(old?.userId, values.userId),
    sessionId: textOr(old?.sessionId, values.sessionId),
    correlationId: textOr(old?.correlationId, values.correlationId),
    tags: mergeTags(old?.tags ?? null, values.tags),
  };
}

function textOr(old: string | null | undefined, value: unknown): string | null | undefined {
  return value === undefined ? old : scalarText(value);
}

/** Makes a new object: an event that already took the old one keeps it as it was. */
function mergeTags(old: AddedContext['tags'], values: ContextValues['tags']): AddedContext['tags'] {
  if (values === undefined || values === null) return values === null ? null : old;
  const tags: Record<string, string> = { ...old };
  for (const [name, value] of Object.entries(values)) {
    const text = typeof value === 'boolean' ? String(value) : scalarText(value);
    if (text === null) delete tags[name];
    else if (name !== '__proto__') tags[name] = text;
  }
  return Object.keys(tags).length > 0 ? tags : null;
}
