import type { OptionsInCode } from 'options-in-code';
import type { PiiRules } from '../ground/pii-rule.ts';
import type { Expression, TargetFields } from './schema/target.ts';

/** What `svc.config.ts` and `svc.config.mjs` export. Names may be written in camelCase or with hyphens. */
export interface SvcConfig {
  readonly svc?: SvcSection | undefined;
  readonly management?: Given<OptionsInCode['management']> | undefined;
  /** `'svc.broker.topic': 'orders'` */
  readonly [dotted: `svc.${string}` | `management.${string}`]: unknown;
}

/** One entry of `svc.targets`. */
export interface SvcTarget extends TargetFields<Expression, PiiRules | false> {
  readonly module: string;
  readonly function: string;
  readonly params?: readonly string[] | undefined;
}

/** Gives what it is given: editors complete and check the configuration in it. */
export function defineConfig(config: SvcConfig): SvcConfig {
  return config;
}

type Options = OptionsInCode['svc'];

type SvcSection = Given<Omit<Options, 'pii'>> & {
  readonly targets?: readonly SvcTarget[] | undefined;
  readonly pii?: (Given<Options['pii']> & { readonly fields?: PiiRules | undefined }) | undefined;
  /** Comes with a later version. */
  readonly serde?: object | undefined;
};

/** Every name may be left out, or written with hyphens. Editors show the comments of those that are as they were. */
type Given<T> = { readonly [Name in keyof T]?: Value<T[Name]> | undefined } & {
  readonly [Name in keyof T as Kebab<Name>]?: Value<T[Name]> | undefined;
};

type Value<T> = T extends string | number | boolean | null | undefined | ((...given: never[]) => unknown)
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Item[]
    : string extends keyof T
      ? Readonly<Record<string, string | readonly string[]>>
      : Given<T>;

type Kebab<Name> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `-${Lowercase<First>}`}${Kebab<Rest>}`
  : Name;
