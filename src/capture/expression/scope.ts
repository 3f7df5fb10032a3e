import type { ErrorCode } from '../../ground/errors.ts';
import { nearestNames } from '../../ground/nearest-names.ts';
import { Refusal } from './failure.ts';

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

/** What gives the value of a name in a call. */
export type NameReader = (call: ExpressionScope) => unknown;

/** These names win over a parameter of the same name, which stays in reach as `p0`, `p1`, … */
const fixedNames: ReadonlyMap<string, NameReader> = new Map<string, NameReader>([
  ['result', (call) => call.result],
  ['args', (call) => call.args],
  ['self', (call) => call.self],
  ['this', (call) => call.self],
]);

/**
 * What a name of an expression stands for; `undefined` for an unknown name.
 *
 * @param parameterNames the parameters in their order, with `''` for one that has no name (destructured, rest);
 *   `undefined` when nobody knows them
 */
export function nameReader(
  name: string,
  parameterNames: readonly string[] | undefined,
): NameReader | undefined {
  const fixed = fixedNames.get(name);
  if (fixed !== undefined) return fixed;
  const position = /^[pa](0|[1-9]\d?)$/u.exec(name)?.[1];
  const index = position === undefined ? (parameterNames?.lastIndexOf(name) ?? -1) : Number(position);
  if (index < 0) return name === 'error' ? (call) => call.error : undefined;
  // A parameter that the function declares may be left out; an argument by position only may not.
  if (index < (parameterNames?.length ?? 0)) return (call) => call.args[index];
  return ({ args }) => {
    if (index < args.length) return args[index];
    throw new Refusal('the call has no argument at this position.');
  };
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
