import type { Names } from './check/validate.ts';
import type { Camel, GivenOf, Nested } from './config.ts';
import type { OptionTable, Row } from './schema/schema.ts';

/**
 * The options as `defineConfig` takes them; those with a form of their own are in `define-config.ts`. In the package they
 * stand one by one, with their comments, for editors (`scripts/config-types.ts`).
 */
export type OptionsInCode = Nested<{
  readonly [Name in keyof OptionTable as OptionTable[Name]['type'] extends 'rules'
    ? never
    : Camel<Name>]: InCode<OptionTable[Name]>;
}>;

type InCode<One extends Row> = One['type'] extends 'names'
  ? Readonly<Record<string, Names[string] | string>>
  : GivenOf<One>;
