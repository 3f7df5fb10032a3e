import type { ErrorCode } from '../../ground/errors.ts';
import { nearestNames } from '../../ground/nearest-names.ts';

/** What an expression can see of one call. */
export interface ExpressionScope {
  readonly args: readonly unknown[];
  /** What the function returned or resolved to. Throws where that is not known yet. */
  readonly result: unknown;
  /** The object that the method was called on. */
  readonly self: unknown;
  /** What the function threw; `undefined` when it did not. */
  readonly error?: unknown;
  /** Of a text that goes out in clear: why a field may not be read, where it may not. */
  readonly refuses?: ((target: unknown, field: string) => ErrorCode | undefined) | undefined;
}

export type ScopeKey = Exclude<keyof ExpressionScope, 'refuses'>;

/** How a name gets its value in a call. A number is the index of an argument. */
export type Resolved =
  | { readonly kind: 'scope'; readonly key: ScopeKey }
  /** A parameter that the function declares: `undefined` when the caller left it out. */
  | { readonly kind: 'parameter'; readonly index: number }
  /** An argument by position only: a failure when the caller gave fewer. */
  | { readonly kind: 'argument'; readonly index: number };

/** These names win over a parameter of the same name, which stays in reach as `p0`, `p1`, … */
const scopeNames: Readonly<Record<string, ScopeKey>> = {
  result: 'result',
  args: 'args',
  self: 'self',
  this: 'self',
};

/**
 * What a name of an expression stands for; `undefined` for an unknown name.
 *
 * @param parameterNames the parameters in their order, with `''` for one that has no name (destructured, rest);
 *   `undefined` when nobody knows them
 */
export function resolveName(
  name: string,
  parameterNames: readonly string[] | undefined,
): Resolved | undefined {
  if (Object.hasOwn(scopeNames, name)) return { kind: 'scope', key: scopeNames[name] as ScopeKey };
  const position = /^[pa](0|[1-9]\d?)$/u.exec(name)?.[1];
  if (position !== undefined) {
    const index = Number(position);
    return { kind: index < (parameterNames?.length ?? 0) ? 'parameter' : 'argument', index };
  }
  const index = parameterNames?.lastIndexOf(name) ?? -1;
  if (index >= 0) return { kind: 'parameter', index };
  return name === 'error' ? { kind: 'scope', key: 'error' } : undefined;
}

/** Why a name is refused, with the right ones. */
export function unknownName(name: string, parameterNames: readonly string[] | undefined): string {
  const named = (parameterNames ?? []).filter((parameter) => parameter !== '');
  const positions = parameterNames?.map((_, index) => `p${index}`) ?? ['p0', 'p1', '…'];
  const known = ['result', 'args', 'self', 'this', 'error', ...named, ...positions];
  // `p` is near `p0`.
  const limit = name.length <= 3 ? 1 : 1 + Math.floor(name.length / 3);
  const near = nearestNames(name, known, { limit });
  const hint = near.length > 0 ? ` Did you mean ${near.join(' or ')}?` : '';
  const unknown = parameterNames === undefined ? ' The names of the parameters are not known here.' : '';
  return `there is no name "${name}".${hint} Names: ${known.join(', ')}.${unknown}`;
}
