import type { OptionsInCode } from 'options-in-code';
import type { PiiRules } from '../ground/pii-rule.ts';
import type { Expression, TargetFields } from './schema/target.ts';

/** The default export of `svc.config.ts` and `svc.config.mjs`. Names are in camelCase or with hyphens. */
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

/** Returns its argument. It gives editors the type of the configuration. */
export function defineConfig(config: SvcConfig): SvcConfig {
  return config;
}

type Options = OptionsInCode['svc'];

type SvcSection = Given<Omit<Options, 'pii'>> & {
  readonly targets?: readonly SvcTarget[] | undefined;
  readonly pii?: (Given<Options['pii']> & { readonly fields?: PiiRules | undefined }) | undefined;
  /** Any object, since this type does not check it. */
  readonly serde?: object | undefined;
};

/** Every name is optional, and may be written with hyphens. The first part keeps the comments for editors. */
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
