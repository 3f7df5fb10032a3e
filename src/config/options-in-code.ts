import type { Names } from './check/check.ts';
import type { Camel, GivenOf, Nested } from './config.ts';
import type { OptionTable, Row } from './schema/schema.ts';

/**
 * The options of `defineConfig`, except those that `define-config.ts` writes out. `scripts/config-types.ts` generates this file's type for
 * the package, with a comment per option.
 */
export type OptionsInCode = Nested<{
  readonly [Name in keyof OptionTable as OptionTable[Name]['type'] extends 'rules'
    ? never
    : Camel<Name>]: InCode<OptionTable[Name]>;
}>;

type InCode<One extends Row> = One['type'] extends 'names'
  ? Readonly<Record<string, Names[string] | string>>
  : GivenOf<One>;
